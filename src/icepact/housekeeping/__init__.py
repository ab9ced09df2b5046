"""Housekeeping: what a table keeps and nobody needs is planned, and goes: snapshots, orphans, manifests, old data, tags.

Deciding what goes is pure, in modules of its own. What is deleted here no snapshot, branch, tag or running work can reach.
Nothing here knows the order of things, runs or leases: that is `maintain`'s.
"""
