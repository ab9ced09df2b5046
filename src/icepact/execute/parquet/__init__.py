"""The Parquet format, as far as row groups are moved without decoding them.

Footers, page indexes and bloom filters are read and written here, and files are assembled from column
chunks of other files. No Spark, no Iceberg: everything works on bytes and is tested on local files. What
is not understood completely is never copied: a field we do not know may hold an offset.
"""
