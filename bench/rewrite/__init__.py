"""Rewriting whole tables: icepact against Spark's own action and against `cp`, in one warm session.

`rows` makes data, `tables` makes messy tables of it, `workloads` says which; `sides` rewrites, `queries` reads,
`measure` times both in turn; `results` keeps figures, `report` shows them. Nothing here is imported by icepact.
"""
