"""One loaded table: its snapshots, scans, manifest statistics, checksums of its rows, and staged rewrites.

Nothing here commits, and nothing is deleted. A read answers for one snapshot. Java's scan tasks and files may be handed
on to a commit, but nobody outside `iceberg` looks into them.
"""
