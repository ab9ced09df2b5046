"""The structures of the Parquet format, as far as we know them, and the numbers they use."""

from icepact.execute.parquet.thrift import (
    BINARY,
    BOOL,
    I8,
    I16,
    I32,
    I64,
    Table,
    list_of,
    scalar,
    struct_of,
)

EMPTY: Table = {}

TIME_UNIT: Table = {1: struct_of(EMPTY), 2: struct_of(EMPTY), 3: struct_of(EMPTY)}
TIME: Table = {1: scalar(BOOL), 2: struct_of(TIME_UNIT)}
LOGICAL_TYPE: Table = {
    **{number: struct_of(EMPTY) for number in (1, 2, 3, 4, 6, 11, 12, 13, 14, 15)},
    5: struct_of({1: scalar(I32), 2: scalar(I32)}),
    7: struct_of(TIME),
    8: struct_of(TIME),
    10: struct_of({1: scalar(I8), 2: scalar(BOOL)}),
}
SCHEMA_ELEMENT: Table = {
    **{number: scalar(I32) for number in (1, 2, 3, 5, 6, 7, 8, 9)},
    4: scalar(BINARY),
    10: struct_of(LOGICAL_TYPE),
}
KEY_VALUE: Table = {1: scalar(BINARY), 2: scalar(BINARY)}
STATISTICS: Table = {
    **{number: scalar(BINARY) for number in (1, 2, 5, 6)},
    3: scalar(I64),
    4: scalar(I64),
    7: scalar(BOOL),
    8: scalar(BOOL),
    9: scalar(I64),
}
SIZE_STATISTICS: Table = {1: scalar(I64), 2: list_of(scalar(I64)), 3: list_of(scalar(I64))}
PAGE_ENCODING: Table = {1: scalar(I32), 2: scalar(I32), 3: scalar(I32)}
COLUMN_META: Table = {
    1: scalar(I32),
    2: list_of(scalar(I32)),
    3: list_of(scalar(BINARY)),
    4: scalar(I32),
    **{number: scalar(I64) for number in (5, 6, 7, 9, 10, 11, 14)},
    8: list_of(struct_of(KEY_VALUE)),
    12: struct_of(STATISTICS),
    13: list_of(struct_of(PAGE_ENCODING)),
    15: scalar(I32),
    16: struct_of(SIZE_STATISTICS),
}
COLUMN_CHUNK: Table = {
    1: scalar(BINARY),
    2: scalar(I64),
    3: struct_of(COLUMN_META),
    4: scalar(I64),
    5: scalar(I32),
    6: scalar(I64),
    7: scalar(I32),
}
SORTING_COLUMN: Table = {1: scalar(I32), 2: scalar(BOOL), 3: scalar(BOOL)}
ROW_GROUP: Table = {
    1: list_of(struct_of(COLUMN_CHUNK)),
    2: scalar(I64),
    3: scalar(I64),
    4: list_of(struct_of(SORTING_COLUMN)),
    5: scalar(I64),
    6: scalar(I64),
    7: scalar(I16),
}
COLUMN_ORDER: Table = {1: struct_of(EMPTY)}
FILE_META: Table = {
    1: scalar(I32),
    2: list_of(struct_of(SCHEMA_ELEMENT)),
    3: scalar(I64),
    4: list_of(struct_of(ROW_GROUP)),
    5: list_of(struct_of(KEY_VALUE)),
    6: scalar(BINARY),
    7: list_of(struct_of(COLUMN_ORDER)),
}
PAGE_LOCATION: Table = {1: scalar(I64), 2: scalar(I32), 3: scalar(I64)}
OFFSET_INDEX: Table = {1: list_of(struct_of(PAGE_LOCATION)), 2: list_of(scalar(I64))}
COLUMN_INDEX: Table = {
    1: list_of(scalar(BOOL)),
    2: list_of(scalar(BINARY)),
    3: list_of(scalar(BINARY)),
    4: scalar(I32),
    5: list_of(scalar(I64)),
    6: list_of(scalar(I64)),
    7: list_of(scalar(I64)),
    8: list_of(scalar(I64)),
}
PAGE_HEADER: Table = {
    **{number: scalar(I32) for number in (1, 2, 3, 4)},
    5: struct_of({**{number: scalar(I32) for number in (1, 2, 3, 4)}, 5: struct_of(STATISTICS)}),
    6: struct_of(EMPTY),
    7: struct_of({1: scalar(I32), 2: scalar(I32), 3: scalar(BOOL)}),
    8: struct_of({**{number: scalar(I32) for number in (1, 2, 3, 4, 5, 6)}, 7: scalar(BOOL), 8: struct_of(STATISTICS)}),
}
BLOOM_HEADER: Table = {
    1: scalar(I32),
    2: struct_of({1: struct_of(EMPTY)}),
    3: struct_of({1: struct_of(EMPTY)}),
    4: struct_of({1: struct_of(EMPTY)}),
}

BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)
"""Physical types."""
REQUIRED, OPTIONAL, REPEATED = range(3)

CODECS = {
    "uncompressed": 0,
    "snappy": 1,
    "gzip": 2,
    "brotli": 4,
    "zstd": 6,
    "lz4_raw": 7,
}
"""Codecs that every copy may carry; LZO and the ambiguous old LZ4 are none of them."""
PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED = 0, 2, 3, 4
DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY, RLE_DICTIONARY, BYTE_STREAM_SPLIT = 5, 6, 7, 8, 9
ENCODINGS = frozenset({0, 2, 3, 4, 5, 6, 7, 8, 9})
DICTIONARIES = frozenset({PLAIN_DICTIONARY, RLE_DICTIONARY})
"""Encodings whose pages refer to the dictionary of their chunk."""
DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = range(4)
