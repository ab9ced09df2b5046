"""What was done: every run and its outcome. Stores remember; they decide nothing and start nothing."""
