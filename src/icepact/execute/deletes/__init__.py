"""Which rows of a data file are deleted: bytes of delete files in, positions and key sets out.

Runs inside Spark's Python workers: standard library, numpy, pyarrow, polars and pyroaring only. No Spark,
no Java, no Iceberg library. Nothing here opens a file or decides which delete applies to which data file:
the caller hands over the deletes that apply, and a function that fetches their bytes.

A delete that is read wrongly brings rows back or loses rows, so whatever is not certain is refused:
`BrokenDelete` if a file contradicts itself or its manifest, `UnsupportedDelete` if another rewrite
method has to do the work.
"""
