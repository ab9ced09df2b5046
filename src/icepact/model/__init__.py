"""The words of icepact: frozen values, the user's options, and errors.

Nothing here reads, writes, connects or decides. No Spark, no Java, no SQL, no file system.
"""
