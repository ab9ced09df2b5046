"""File statistics and policy in, health out: facts per partition, score, priority, partition groups.

Pure: the same statistics give the same health. No Spark, no Java, no files, no clock.
"""
