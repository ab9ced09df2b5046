"""Benchmarks: ratios against a rival, measured in the same run on the same machine."""
