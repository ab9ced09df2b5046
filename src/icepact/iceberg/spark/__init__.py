"""Spark and the JVM below it: jars, the launch, sessions, and one catalog in a session.

The user's own session is adopted as it is, and no setting of ours ever reaches it. Secrets stay off the command line.
Nothing here reads or writes data files.
"""
