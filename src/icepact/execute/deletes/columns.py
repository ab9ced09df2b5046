"""Arrow columns in the form in which keys are compared; `kinds` has the rules for single values.

Files may hold an older type than the table has now (int for long, float for double, date for timestamp,
a decimal with fewer digits): both sides are brought to the wanted type before they are compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icepact.execute.deletes.errors import UnsupportedDelete
from icepact.execute.deletes.kinds import Comparable, Kind

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_SECONDS_PER_DAY = 86_400
_ARROW_ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyColumn:
    """One column in comparable form. Where it is null, some value stands in that means nothing."""

    values: Any
    """A numpy array of int64, or a pyarrow array of large binary."""
    nulls: NDArray[np.bool_] | None
    """True where it is null; `None` if it is so nowhere."""

    def __len__(self) -> int:
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """Memory it holds."""
        return int(self.values.nbytes) + (0 if self.nulls is None else self.nulls.nbytes)

    @property
    def is_null(self) -> NDArray[np.bool_]:
        """True where it is null, written out."""
        return np.zeros(len(self), dtype=np.bool_) if self.nulls is None else self.nulls

    def take(self, rows: NDArray[np.integer[Any]]) -> "KeyColumn":
        """Some rows of the column, by their numbers."""
        values = self.values.take(rows if isinstance(self.values, np.ndarray) else pa.array(rows))
        return KeyColumn(values=values, nulls=None if self.nulls is None else self.nulls.take(rows))

    def part(self, start: int, end: int) -> "KeyColumn":
        """Rows from start up to but not including end."""
        return KeyColumn(values=self.values[start:end], nulls=None if self.nulls is None else self.nulls[start:end])

    def equals(self, other: "KeyColumn") -> NDArray[np.bool_]:
        """Row by row, null equal to null."""
        if isinstance(self.values, np.ndarray):
            same: NDArray[np.bool_] = self.values == other.values
        else:
            same = _to_numpy(pc.equal(self.values, other.values))
        if self.nulls is None and other.nulls is None:
            return same
        mine, yours = self.is_null, other.is_null
        return (same & ~mine & ~yours) | (mine & yours)


def constant_column(kind: Kind, value: Comparable, rows: int) -> KeyColumn:
    """The same comparable value in every row."""
    nulls = np.ones(rows, dtype=np.bool_) if value is None else None
    if kind.bytewise:
        return KeyColumn(values=pa.repeat(pa.scalar(value or b"", pa.large_binary()), rows), nulls=nulls)
    return KeyColumn(values=np.full(rows, value or 0, dtype=np.int64), nulls=nulls)


def joined(columns: Sequence[KeyColumn]) -> KeyColumn:
    """One column after the other; at least one."""
    if len(columns) == 1:
        return columns[0]
    some_null = any(column.nulls is not None for column in columns)
    nulls = np.concatenate([column.is_null for column in columns]) if some_null else None
    if isinstance(columns[0].values, np.ndarray):
        return KeyColumn(values=np.concatenate([column.values for column in columns]), nulls=nulls)
    return KeyColumn(values=pa.concat_arrays([column.values for column in columns]), nulls=nulls)


def key_column(kind: Kind, array: pa.Array | pa.ChunkedArray) -> KeyColumn:
    """An Arrow column, of the wanted type or one that was promoted to it, in comparable form."""
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    if not chunks:
        return constant_column(kind, None, 0)
    try:
        return joined([_converted(kind, chunk) for chunk in chunks])
    except _ARROW_ERRORS as error:
        raise UnsupportedDelete(f"a {array.type} column cannot be compared as {kind.name}: {error}") from None


def each_once(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each number of a sorted array once."""
    first = np.ones(len(numbers), dtype=np.bool_)
    first[1:] = numbers[1:] != numbers[:-1]
    return numbers[first]


def in_dictionaries(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether all indices of a column are in their dictionaries; true for a column without. pyarrow gives indices as
    they stand in the file, and whoever takes values by them would read elsewhere in memory."""
    if not pa.types.is_dictionary(column.type):
        return True
    for part in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        bounds = pc.min_max(part.indices)
        if bounds["max"].is_valid and not 0 <= bounds["min"].as_py() <= bounds["max"].as_py() < len(part.dictionary):
            return False
    return True


def dictionary_column(kind: Kind, array: pa.DictionaryArray) -> tuple[KeyColumn, NDArray[np.int64]]:
    """The values of a dictionary, then null, and for each row the number of its value."""
    if not in_dictionaries(array):  # one that is just beyond would stand for null
        raise pa.ArrowInvalid("an index is beyond its dictionary")
    values = joined([key_column(kind, array.dictionary), constant_column(kind, None, 1)])
    missing = len(array.dictionary)
    codes: NDArray[np.int64] = array.indices.cast(pa.int64()).fill_null(missing).to_numpy(zero_copy_only=False)
    return values, codes


def _converted(kind: Kind, array: pa.Array) -> KeyColumn:
    if isinstance(array, pa.DictionaryArray):
        values, codes = dictionary_column(kind, array)
        return values.take(codes)
    if isinstance(array, pa.RunEndEncodedArray):
        array = pc.run_end_decode(array)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_null(array.type):
        return constant_column(kind, None, len(array))
    nulls = _to_numpy(array.is_null()) if array.null_count else None
    return KeyColumn(values=_WAYS[kind.name](kind, array), nulls=nulls)


def _number(kind: Kind, array: pa.Array) -> NDArray[np.int64]:
    fits = pa.types.is_boolean if kind.name == "boolean" else pa.types.is_integer
    _demand(fits(array.type), kind, array)
    return _whole(array)


def _date(kind: Kind, array: pa.Array) -> NDArray[np.int64]:
    _demand(pa.types.is_date32(array.type), kind, array)
    return _whole(array.cast(pa.int32()))


def _time(kind: Kind, array: pa.Array) -> NDArray[np.int64]:
    if pa.types.is_int64(array.type):  # ORC has no type for it
        return _whole(array)
    _demand(pa.types.is_time(array.type), kind, array)
    plain = array.cast(pa.int32()) if pa.types.is_time32(array.type) else array
    return _rescaled(_whole(plain), _PER_SECOND[array.type.unit], _PER_SECOND["us"])


def _timestamp(kind: Kind, array: pa.Array) -> NDArray[np.int64]:
    wanted = _PER_SECOND["ns" if kind.name.endswith("_ns") else "us"]
    if pa.types.is_date32(array.type):
        return _scaled_up(_whole(array.cast(pa.int32())), _SECONDS_PER_DAY * wanted)
    _demand(pa.types.is_timestamp(array.type), kind, array)
    return _rescaled(_whole(array), _PER_SECOND[array.type.unit], wanted)


def _float(kind: Kind, array: pa.Array) -> NDArray[np.int64]:
    double = kind.name == "double"
    _demand(pa.types.is_float32(array.type) or (double and pa.types.is_float64(array.type)), kind, array)
    values = array.cast(pa.float64() if double else pa.float32()).fill_null(0.0).to_numpy(zero_copy_only=False)
    whole = np.int64 if double else np.int32
    bits = np.where(np.isnan(values), whole(kind.nan), values.view(whole))
    return np.where(bits < 0, bits ^ np.iinfo(whole).max, bits).astype(np.int64)


def decimal_halves(array: pa.Decimal128Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The lower and the upper 64 bits of each unscaled number; where it is null, they mean nothing."""
    data = array.buffers()[1] or b""
    halves = np.frombuffer(data, dtype="<i8")[2 * array.offset : 2 * (array.offset + len(array))]
    return halves[0::2], halves[1::2]


def _decimal(kind: Kind, array: pa.Array) -> Any:
    _demand(pa.types.is_decimal(array.type) and array.type.scale == kind.scale, kind, array)
    array = array.cast(pa.decimal128(38, kind.scale)).fill_null(0)
    low, high = decimal_halves(array)
    if not kind.wide:
        # a value beyond the type's digits would be cut to a different number
        _demand(bool(np.all(high == low >> 63)), kind, array)
        return np.ascontiguousarray(low)
    swapped = np.empty((len(array), 2), dtype=">u8")
    swapped[:, 0] = high.view(np.uint64) ^ np.uint64(1 << 63)
    swapped[:, 1] = low.view(np.uint64)
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(array), [None, pa.py_buffer(swapped)]).cast(
        pa.large_binary()
    )


def _text(kind: Kind, array: pa.Array) -> pa.Array:
    of_bytes = pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type)
    of_bytes |= pa.types.is_fixed_size_binary(array.type) or pa.types.is_binary_view(array.type)
    of_text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
    of_text |= pa.types.is_string_view(array.type)
    # some writers spell out uuids as text; taken as bytes they would match nothing
    _demand(of_bytes or (of_text and kind.name != "uuid"), kind, array)
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    return array.cast(pa.large_binary()).fill_null(b"")


def _unknown(kind: Kind, array: pa.Array) -> NDArray[np.int64]:
    _demand(array.null_count == len(array), kind, array)
    return np.zeros(len(array), dtype=np.int64)


_WAYS: dict[str, Callable[[Kind, pa.Array], Any]] = {
    "boolean": _number,
    "int": _number,
    "long": _number,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": _timestamp,
    "timestamp_ns": _timestamp,
    "timestamptz_ns": _timestamp,
    "float": _float,
    "double": _float,
    "decimal": _decimal,
    "string": _text,
    "uuid": _text,
    "fixed": _text,
    "binary": _text,
    "unknown": _unknown,
}


def _demand(holds: bool, kind: Kind, array: pa.Array) -> None:
    if not holds:
        raise UnsupportedDelete(f"a {array.type} column cannot be compared as {kind.name}")


def _whole(array: pa.Array) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _to_numpy(flags: pa.Array) -> NDArray[np.bool_]:
    array: NDArray[np.bool_] = flags.to_numpy(zero_copy_only=False)
    return array


def _rescaled(numbers: NDArray[np.int64], have: int, want: int) -> NDArray[np.int64]:
    """To a coarser unit rounded down, as Iceberg reads INT96; to a finer one exactly."""
    return numbers // (have // want) if have >= want else _scaled_up(numbers, want // have)


def _scaled_up(numbers: NDArray[np.int64], factor: int) -> NDArray[np.int64]:
    most = np.iinfo(np.int64).max // factor
    if len(numbers) and (numbers.max() > most or numbers.min() < -most):
        raise UnsupportedDelete("a date is too far away for its new type")
    return numbers * factor
