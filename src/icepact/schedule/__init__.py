"""Work that nobody waits for: which job is next, when a failed one is tried again, and workers that carry jobs out.

Nothing here decides anything about tables: workers call the application, as the command line does. Which job is next
and what becomes of one is decided by functions of values.
"""
