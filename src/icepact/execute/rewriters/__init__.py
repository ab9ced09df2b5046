"""The ways to rewrite a unit. Siblings: none knows another; `base` says what they have in common."""
