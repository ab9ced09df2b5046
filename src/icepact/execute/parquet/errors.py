"""What can be wrong with a Parquet file."""


class Damaged(Exception):
    """The file is not a whole, valid Parquet file."""


class NotCopyable(Exception):
    """The chunk is valid but must not be copied byte by byte."""
