"""Money and time: what work costs, what runs took, what they taught, and what may still be spent.

Pure arithmetic over outcomes: nothing here reads a store, asks the clock or decides what is rewritten.
"""
