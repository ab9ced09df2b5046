"""Housekeeping: what a table keeps and nobody needs goes: snapshots, orphans, scattered manifests, old data, old tags.

Deciding what goes is pure, in modules of its own. What is deleted here can be reached by no snapshot, branch, tag or
running work. Nothing here knows the order of things, runs or leases: that is `maintain`'s.
"""
