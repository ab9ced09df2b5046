"""Health, files and policy in, plan out: select files, pack them into groups, price them, pick, fit to the budget.

Pure and deterministic: the same state and policy give the same plan. No Spark, no Java, no files,
no clock, no randomness. Nothing outside this room decides what is rewritten.
"""
