"""The values that every room speaks of: files, snapshots, health, policy, plan, run, outcome, fleet, and the errors.

Frozen, and each field explained. Nothing here reads, writes, connects or decides. No arrays, no Spark, no SQL.
"""
