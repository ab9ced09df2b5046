"""Files as the rewriting kernel sees them: immutable files to read, new files to create, nothing else.

Used on executors and on the driver. Nothing is listed, nothing is overwritten, no path is decoded: a path
is what the table's metadata says. No Spark, no catalog, no Parquet in here.
"""
