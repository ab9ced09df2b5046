"""The service from Python: `from icepact.client import Client`. Of icepact it knows the values only."""

from icepact.client.client import Client

__all__ = ["Client"]
