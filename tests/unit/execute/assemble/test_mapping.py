"""Files without field ids: the name mapping says which column is which, also inside of lists and maps."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepact.execute.parquet.layout import REPEATED
from icepact.execute.parquet.thrift import Fields
from tests.support.kernel import COPY, Kernel, column, list_of, map_of, output, stored, struct
from tests.support.parquet_bent import bent, footer_of

PAIR = struct(column(4, "a", "int"), column(5, "b", "string"))
SCHEMA = struct(column(1, "id", "long"), column(2, "items", list_of(3, PAIR)), column(6, "tags", list_of(7, "int")))
MAPPING = [
    {"field-id": 1, "names": ["id"]},
    {
        "field-id": 2,
        "names": ["items"],
        "fields": [
            {
                "field-id": 3,
                "names": ["element"],
                "fields": [{"field-id": 4, "names": ["a"]}, {"field-id": 5, "names": ["b"]}],
            }
        ],
    },
    {"field-id": 6, "names": ["tags"], "fields": [{"field-id": 7, "names": ["element"]}]},
]
ROWS = [
    {"id": 1, "items": [{"a": 1, "b": "x"}], "tags": [7]},
    {"id": 2, "items": [{"a": 2, "b": "y"}, {"a": None, "b": "z"}], "tags": []},
    {"id": 3, "items": None, "tags": None},
    {"id": 4, "items": [], "tags": [8, 9]},
]


def table(*, nullable: bool) -> pa.Table:
    """Rows without ids; a two-level list has no room for elements that are null."""
    pair = pa.struct([("a", pa.int32()), ("b", pa.string())])
    items = pa.list_(pa.field("element", pair, nullable=nullable))
    tags = pa.list_(pa.field("element", pa.int32(), nullable=nullable))
    return pa.Table.from_pylist(ROWS, pa.schema([("id", pa.int64()), ("items", items), ("tags", tags)]))


Change = Callable[[Fields], None]


def renamed(names: Mapping[bytes, bytes]) -> Change:
    """Other names for what is inside of lists and maps, as other writers have them."""

    def change(fields: Fields) -> None:
        for element in fields[2]:
            element[4] = names.get(element[4], element[4])
        for chunk in (chunk for group in fields[4] for chunk in group[1]):
            chunk[3][3] = [names.get(part, part) for part in chunk[3][3]]

    return change


def two_levels(name: Callable[[bytes], bytes]) -> Change:
    """The element itself is repeated, as the oldest writers had it; levels stay what they were."""

    def change(fields: Fields) -> None:
        kept: list[Fields] = []
        for element in fields[2]:
            if element[4] == b"element":
                element = {**element, 3: REPEATED, 4: name(kept[-2][4])}
                kept.pop()
            kept.append(dict(sorted(element.items())))
        fields[2] = kept
        for chunk in (chunk for group in fields[4] for chunk in group[1]):
            path: list[bytes] = chunk[3][3]
            if b"list" in path:
                chunk[3][3] = [path[0], name(path[0]), *path[3:]]

    return change


def bend(path: Path, change: Change) -> Path:
    path.write_bytes(bent(path.read_bytes(), change))
    return path


# -- lists ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [{}, COPY], ids=["encode", "copy"])
@pytest.mark.parametrize(
    "names",
    [
        {},
        {b"element": b"item"},
        {b"element": b"array_element", b"list": b"bag"},
        {b"element": b"array", b"list": b"bag"},
    ],
    ids=["standard", "arrow", "hive", "spark"],
)
def test_elements_by_any_name(tmp_path: Path, names: Mapping[bytes, bytes], way: Mapping[str, Any]) -> None:
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, name_mapping=MAPPING, writing=way)
    files = [bend(kernel.file(f"f{n}", table(nullable=True)), renamed(names)) for n in range(2)]
    found = kernel.rewritten(*files)
    assert found.to_pylist() == ROWS * 2


@pytest.mark.parametrize("name", [lambda _: b"array", lambda parent: parent + b"_tuple"], ids=["avro", "thrift"])
def test_lists_of_two_levels(tmp_path: Path, name: Callable[[bytes], bytes]) -> None:
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, name_mapping=MAPPING)
    files = [bend(kernel.file(f"f{n}", table(nullable=False)), two_levels(name)) for n in range(2)]
    assert pq.read_table(files[0]).to_pylist() == ROWS  # what pyarrow makes of it
    assert kernel.rewritten(*files).to_pylist() == ROWS * 2


def test_a_two_level_list_of_one_column(tmp_path: Path) -> None:
    """Only its name tells that the repeated group is the element, and not a level around it."""
    schema = struct(column(2, "items", list_of(3, struct(column(4, "a", "int")))))
    inner = {"field-id": 3, "names": ["element"], "fields": [{"field-id": 4, "names": ["a"]}]}
    mapping = [{"field-id": 2, "names": ["items"], "fields": [inner]}]
    kernel = Kernel(folder=tmp_path, schema=schema, name_mapping=mapping)
    kind = pa.list_(pa.field("element", pa.struct([("a", pa.int32())]), nullable=False))
    rows = [{"items": [{"a": 1}, {"a": None}]}, {"items": None}]
    path = kernel.file("f", pa.Table.from_pylist(rows, pa.schema([("items", kind)])))
    again = kernel.file("g", pa.Table.from_pylist(rows, pa.schema([("items", kind)])))
    change = two_levels(lambda _: b"array")
    assert kernel.rewritten(bend(path, change), bend(again, change)).to_pylist() == rows * 2


def test_nested_columns_are_assembled_with_ids(tmp_path: Path) -> None:
    """What is decoded has no ids at all; in the output every field has its own."""
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, name_mapping=MAPPING)
    files = [kernel.file(f"f{n}", table(nullable=True), store_schema=n == 0) for n in range(2)]
    report = kernel.run(*files)
    assert (report.refused, report.failed, report.effort.copied_bytes) == (None, None, 0)
    assert pq.read_table(output(report)).to_pylist() == ROWS * 2
    elements = footer_of(output(report).read_bytes())[2]
    assert [element.get(9) for element in elements] == [None, 1, 2, None, 3, 4, 5, 6, None, 7]


# -- maps -------------------------------------------------------------------------------------------

MAP_SCHEMA = struct(column(1, "id", "long"), column(2, "prices", map_of(3, "string", 4, list_of(5, "int"))))
MAP_ROWS = [
    {"id": 1, "prices": [("x", [1, None]), ("y", None)]},
    {"id": 2, "prices": []},
    {"id": 3, "prices": None},
]


def map_mapping(parts: Sequence[str]) -> list[dict[str, Any]]:
    element = {"field-id": 5, "names": ["element"]}
    known = {
        "key": {"field-id": 3, "names": ["key"]},
        "value": {"field-id": 4, "names": ["value"], "fields": [element]},
    }
    prices = {"field-id": 2, "names": ["prices"], "fields": [known[part] for part in parts]}
    return [{"field-id": 1, "names": ["id"]}, prices]


def map_files(kernel: Kernel, names: Mapping[bytes, bytes]) -> list[Path]:
    kind = pa.schema([("id", pa.int64()), ("prices", pa.map_(pa.string(), pa.list_(pa.int32())))])
    rows = pa.Table.from_pylist(MAP_ROWS, kind)
    return [bend(kernel.file(f"f{n}", rows, use_compliant_nested_type=False), renamed(names)) for n in range(2)]


@pytest.mark.parametrize(
    "names",
    [{}, {b"key_value": b"map"}, {b"key_value": b"entries", b"key": b"keys", b"value": b"values"}],
    ids=["standard", "legacy", "odd"],
)
def test_keys_and_values_by_any_name(tmp_path: Path, names: Mapping[bytes, bytes]) -> None:
    kernel = Kernel(folder=tmp_path, schema=MAP_SCHEMA, name_mapping=map_mapping(["key", "value"]))
    assert kernel.rewritten(*map_files(kernel, names)).to_pylist() == MAP_ROWS * 2


# -- what nobody can tell ---------------------------------------------------------------------------


@pytest.mark.parametrize("way", [{}, COPY], ids=["encode", "copy"])
@pytest.mark.parametrize("names", [[], ["other"]], ids=["nothing", "another name"])
def test_unknown_elements_are_refused(tmp_path: Path, names: list[str], way: Mapping[str, Any]) -> None:
    """A mapping that does not speak of the elements must not turn them into nulls."""
    fields = [{"field-id": 7, "names": [name]} for name in names]
    mapping = [*MAPPING[:2], {"field-id": 6, "names": ["tags"], "fields": fields}]
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, name_mapping=mapping, writing=way)
    report = kernel.run(kernel.file("f", table(nullable=True)), kernel.file("g", table(nullable=True)))
    assert (report.outputs, report.failed) == ((), None)
    assert report.refused == "what is inside tags cannot be told by its ids"


@pytest.mark.parametrize("parts", [[], ["key"], ["value"]], ids=lambda parts: "-".join(parts) or "nothing")
def test_maps_that_are_known_in_part_are_refused(tmp_path: Path, parts: Sequence[str]) -> None:
    kernel = Kernel(folder=tmp_path, schema=MAP_SCHEMA, name_mapping=map_mapping(parts))
    report = kernel.run(*map_files(kernel, {}))
    assert (report.outputs, report.failed) == ((), None)
    assert report.refused is not None


def test_a_list_with_an_id_whose_element_has_none(tmp_path: Path) -> None:
    """Ids in a file count alone: no name is looked at."""
    kernel = Kernel(folder=tmp_path, schema=struct(column(6, "tags", list_of(7, "int"))), name_mapping=MAPPING)
    rows = pa.table({"tags": pa.array([[1], [2, 3]], pa.list_(pa.int32()))})
    rows = rows.cast(pa.schema([stored(6, "tags", pa.list_(pa.int32()))]))
    report = kernel.run(kernel.file("f", rows), kernel.file("g", rows))
    assert (report.outputs, report.refused) == ((), "what is inside tags cannot be told by its ids")
