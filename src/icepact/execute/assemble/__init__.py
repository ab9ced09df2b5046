"""The kernel of method `assemble`: what one task does with one unit, row group by row group.

It runs in Spark's Python workers, which know nothing but this package, pyarrow, numpy, polars, pyroaring
and, for S3, boto3. So nothing here imports Spark, Java or the rooms of the driver.
"""
