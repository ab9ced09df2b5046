"""What users want: options, units, patterns, layers of policies, and how they resolve to the policy of one table.

Texts and mappings come in, values or one line of refusal go out. Nothing here opens a file, a table or a catalog.
"""
