"""What was done and what is under way: runs, their finished units, who holds a table, and what keeps failing.

Stores remember; they decide nothing and start nothing. A state changes only by compare-and-set.
"""
