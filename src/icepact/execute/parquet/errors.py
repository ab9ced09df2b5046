"""What can be wrong with a Parquet file."""


class Damaged(Exception):
    """The file is not a whole, valid Parquet file."""
