"""What can be watched: metrics, traces and logs. Everything may use this room, and it knows values only.

It is silent, and costs next to nothing, until a process sets it up; only then is anything imported that the package can
do without. Nothing here may fail whoever uses it, and no secret leaves through it.
"""
