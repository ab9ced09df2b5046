"""Strategies: which files of a partition group are worth rewriting, how deep, and why.

Each is one function from a partition group and a policy to a selection, in a module of its own, but for `auto`, which
takes what `tiers.py` says is due; `table.py` is the whole list. They see counted facts, never files: the same selection
is made from statistics of a million files and from the files themselves.
"""
