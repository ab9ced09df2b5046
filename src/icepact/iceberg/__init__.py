"""The one room where Java is spoken: Spark sessions, catalogs, scans, staged rewrites, replace commits.

Everything leaves this room as `model` values or behind a Python method; no py4j object is touched
outside. Facts about files move in bulk, never file by file. Nothing here decides what to rewrite or
whether a commit is right: that is for `plan` and `commit`.
"""
