"""Table state and policy in, plan out.

Pure and deterministic: the same state and policy give the same plan. No Spark, no Java, no files,
no clock, no randomness. Nothing outside this room decides what is rewritten.
"""
