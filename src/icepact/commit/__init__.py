"""New files in, one atomic snapshot out: judged at the head, proven, bound, checked.

No group is committed whose inputs changed since the pin, and no delete file goes while it may still
apply to a live row. Nothing here reads or writes rows, and nothing is deleted from storage unless the
commit certainly did not land.
"""
