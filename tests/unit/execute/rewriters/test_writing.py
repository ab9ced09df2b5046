"""How new row groups are written: what the table says, and the policy over it."""

from typing import Any

import pytest

from icepact.execute.assemble.errors import NotAssembled
from icepact.execute.assemble.messages import MOST_ROWS, WriteSettings
from icepact.execute.rewriters.writing import writing_of
from icepact.model.errors import BadInput
from icepact.policy.options import Options, options
from icepact.policy.resolve import resolve

LEVEL, CODEC = "write.parquet.compression-level", "write.parquet.compression-codec"


def writing(properties: dict[str, str] | None = None, **wishes: Any) -> WriteSettings:
    """The settings for a table of one column."""
    policy = resolve(options(wishes), {}, Options())
    return writing_of(properties or {}, policy, {"id": 1})


@pytest.mark.parametrize(
    ("properties", "wishes", "expected"),
    [
        ({}, {}, ("zstd", 3, 1)),
        ({LEVEL: "3"}, {}, ("zstd", 3, 3)),
        ({LEVEL: "9"}, {"compression_level": 5}, ("zstd", 5, 5)),
        ({CODEC: "gzip"}, {}, ("gzip", None, None)),
        ({CODEC: "gzip", LEVEL: "9"}, {"codec": "zstd"}, ("zstd", 3, 1)),
        ({CODEC: "snappy", LEVEL: "9"}, {}, ("snappy", None, None)),
        ({CODEC: "lz4"}, {}, ("lz4_raw", None, None)),
        ({CODEC: "none"}, {}, ("uncompressed", None, None)),
    ],
)
def test_codec_and_levels(properties: dict[str, str], wishes: dict[str, Any], expected: tuple[Any, ...]) -> None:
    """Numbers have a level of their own only if nobody named one."""
    found = writing(properties, **wishes)
    assert (found.codec, found.level, found.level_of_numbers) == expected


def test_rows_of_a_row_group() -> None:
    assert writing().row_group_rows == MOST_ROWS
    assert writing(row_group_rows=1000).row_group_rows == 1000


def test_what_cannot_be_written() -> None:
    with pytest.raises(NotAssembled, match="brotli"):
        writing({CODEC: "brotli"})
    with pytest.raises(BadInput, match="compression level 30"):
        writing({LEVEL: "30"})
    with pytest.raises(BadInput, match="page-size-bytes"):
        writing({"write.parquet.page-size-bytes": "large"})
