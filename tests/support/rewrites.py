"""What a rewrite read and wrote, made from the values themselves: the facts a proof compares."""

import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from icepact.model.files import DataFile
from icepact.model.rewrite import ColumnFacts, InputFacts, Written, WrittenFile
from tests.support.states import data_file


def hexed(kind: str, value: Any) -> str:
    """A bound as Iceberg serializes it."""
    if kind in {"int", "date"}:
        return struct.pack("<i", value).hex()
    if kind in {"long", "timestamp", "timestamptz"}:
        return struct.pack("<q", value).hex()
    if kind in {"float", "double"}:
        return struct.pack("<f" if kind == "float" else "<d", value).hex()
    if kind.startswith("decimal"):
        unscaled = int(Decimal(value).scaleb(2))
        return unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True).hex()
    return str(value).encode().hex()


def column(kind: str, values: Sequence[Any], field_id: int = 1) -> ColumnFacts:
    """What a writer tells of a column with these values."""
    known = [v for v in values if v is not None]
    bounds = [{field_id: hexed(kind, bound)} for bound in (min(known), max(known))] if known else [{}, {}]
    return ColumnFacts(nulls={field_id: len(values) - len(known)}, lower=bounds[0], upper=bounds[1])


def schema(kind: Any = "long") -> dict[str, Any]:
    """A schema with one column."""
    return {"type": "struct", "fields": [{"id": 1, "name": "c", "type": kind, "required": False}]}


def described(columns: Sequence[tuple[int, ColumnFacts]]) -> tuple[InputFacts, ...]:
    """Inputs as the manifests describe them: rows and columns of each."""
    return tuple(InputFacts(path=f"in{n}", rows=rows, columns=facts) for n, (rows, facts) in enumerate(columns))


def stored(columns: Sequence[tuple[int, ColumnFacts | None]]) -> tuple[WrittenFile, ...]:
    """Outputs as their writer and their footer describe them."""
    return tuple(
        WrittenFile(
            path=f"out{n}",
            size=500,
            rows=rows,
            spec_id=1,
            partition=("d1",),
            format="parquet",
            stored_size=500,
            stored_rows=rows,
            columns=facts,
        )
        for n, (rows, facts) in enumerate(columns)
    )


def rewrite(kind: str, before: Sequence[Sequence[Any]], after: Sequence[Sequence[Any]]) -> Written:
    """A rewrite of files with these values into files with those."""
    return Written(
        group_id="g0001",
        inputs=described([(len(values), column(kind, values)) for values in before]),
        rows_observed=sum(len(values) for values in after),
        files=stored([(len(values), column(kind, values)) for values in after]),
        methods={"spark": 1},
    )


def planned(written: Written, deletes: Mapping[int, tuple[int, ...]] | None = None) -> list[DataFile]:
    """The inputs as the plan knows them."""
    return [
        data_file(i.path, 100, rows=i.rows, deletes=(deletes or {}).get(n, ())) for n, i in enumerate(written.inputs)
    ]
