"""Strategies: which files of a place are worth rewriting, how deep, and why.

Each is one function from a place and a policy to a choice, in a module of its own; `table.py` is the whole list. They
see counted facts, never files: the same choice is made from a census of a million files and from the files themselves.
"""
