"""The policy file: YAML that knows its lines, the forms it may be written in, and what they mean.

Every refusal is one line with file, line and key, and repeats no value. The text is handed in; nothing is opened here.
"""
