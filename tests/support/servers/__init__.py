"""The real parts that tests need: an S3 server, REST catalogs, PostgreSQL, a Spark cluster.

Each is a context manager that starts its part on loopback on ports nobody else uses and stops it at the end;
`fixtures.py` makes session fixtures of them. A part may not outlive the process that started it, however that
process ends (see `guard.py`), and may keep nothing outside its own temporary folder but downloads in the
user's cache.
"""
