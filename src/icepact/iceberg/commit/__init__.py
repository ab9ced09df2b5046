"""Changes to a table and its folders: the replace commit, its rollback, and the files that a run has written.

A commit is bound to the head at which it was judged, and ends as landed, refused or unknown. Nothing here chooses what
is replaced, or decides that a file may go: both come from the caller.
"""
