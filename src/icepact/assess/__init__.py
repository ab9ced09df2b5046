"""Table state in, health out.

Pure: the same state gives the same health. No Spark, no Java, no files, no clock.
"""
