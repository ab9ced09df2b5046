"""The bridge to Java: py4j calls in bulk, Java's errors as icepact's, and Java classes of ours, compiled at run time.

Nothing is asked file by file: a loop over files runs inside the JVM, and its result comes back in one transfer. What an
error says is masked before people see it. Nothing here starts Spark or loads a table.
"""
