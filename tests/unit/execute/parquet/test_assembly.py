"""Files assembled from chunks of any files hold what their inputs held, whoever reads them."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.execute.parquet.assembler import AssembledFile, Assembler, ByteSink
from icepact.execute.parquet.input import Input, MemorySource, Pick, sorting_columns
from icepact.execute.parquet.schema import Node
from icepact.execute.parquet.thrift import Fields
from tests.support.parquet_files import FileSink, PartsSink, Stored, Written, rows_of, schemas, write
from tests.support.parquet_files import settings as any_settings
from tests.support.parquet_judges import (
    CREATED_BY,
    Rows,
    beyond_duckdb,
    described_well,
    duckdb_sums,
    same_chunk,
    same_rows,
    statistics_hold,
)

MADE = pa.schema([pa.field("made_up", pa.string(), nullable=False), pa.field("row_id", pa.int64(), nullable=False)])


@dataclass(frozen=True, kw_only=True)
class Case:
    """Files, and what is made of them."""

    files: list[Written]
    picks: list[tuple[int, int]]
    """File and row group of each row group of the output."""
    in_memory: list[bool]
    """Which files lie in memory, and are therefore appended."""
    order: list[int]
    """Which column of the inputs stands at each place of the output; -1 for those that are made up."""

    @property
    def groups(self) -> list[int]:
        """Rows of each row group of the output; empty ones are left out."""
        return [rows for file, group in self.picks if (rows := self.files[file].groups[group])]

    @property
    def made(self) -> pa.Table:
        """The columns that no file has."""
        count = sum(self.groups)
        return pa.table([["same"] * count, [10**12 + 3 * n for n in range(count)]], schema=MADE)

    @property
    def expected(self) -> pa.Table:
        """The rows of the output under their new names."""
        rows = pa.concat_tables([self.files[0].table.slice(0, 0), *(self.files[f].rows(g) for f, g in self.picks)])
        columns: dict[str, pa.ChunkedArray] = {}
        for place, column in enumerate(self.order):
            if column < 0:
                columns |= {name: self.made[name] for name in MADE.names}
            else:
                columns[f"new name {place}"] = rows.column(column)
        return pa.table(columns)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Up to four files of one schema, and any row groups of them in any order."""
    schema = draw(schemas())
    how = any_settings(short_decimals=draw(st.booleans()))
    count = draw(st.integers(1, 4))
    files = [
        write(rows_of(schema, draw(st.sampled_from([0, 1, 30, 60])), draw(st.integers(0, 99))), draw(how))
        for _ in range(count)
    ]
    every = [(number, group) for number, file in enumerate(files) for group in range(len(file.groups))]
    order = draw(st.permutations(range(-draw(st.integers(0, 1)), len(schema))))
    return Case(
        files=files,
        picks=draw(st.one_of(st.just(every), st.permutations(every), _some(every))),
        in_memory=[draw(st.sampled_from([False, False, True])) for _ in files],
        order=order,
    )


def _some(every: list[tuple[int, int]]) -> st.SearchStrategy[list[tuple[int, int]]]:
    return st.lists(st.sampled_from(every), max_size=6) if every else st.just([])


def _elements(node: Node) -> Iterator[Fields]:
    yield node.element
    for child in node.children:
        yield from _elements(child)


def _made_input(made: pa.Table, groups: Sequence[int]) -> Input:
    """The made up columns as a file in memory with row groups of just these rows."""
    out = io.BytesIO()
    encodings = {"made_up": "PLAIN", "row_id": "DELTA_BINARY_PACKED"}
    with pq.ParquetWriter(out, MADE, use_dictionary=False, column_encoding=encodings) as writer:
        first = 0
        for rows in groups:
            writer.write_table(made.slice(first, rows))
            first += rows
    return Input(MemorySource(out.getvalue()))


class Making:
    """One way of assembling a case."""

    def __init__(self, case: Case, *, stored: bool = False) -> None:
        self.case = case
        self.inputs = [
            Input(MemorySource(file.data) if memory and not stored else Stored(file.data))
            for file, memory in zip(case.files, case.in_memory, strict=True)
        ]
        self.made = _made_input(case.made, case.groups)
        self.picks: list[list[Pick]] = []
        self.sorting: list[list[Fields] | None] = []

    def schema(self) -> list[Fields]:
        """Elements of the output: those of the first input, reordered and renamed."""
        tops, made = self.inputs[0].footer.schema.children, self.made.footer.schema.children
        elements: list[Fields] = []
        count = 0
        for place, column in enumerate(self.case.order):
            if column < 0:
                elements += [element for node in made for element in _elements(node)]
            else:
                first, *rest = _elements(tops[column])
                elements += [{**first, 4: f"new name {place}".encode()}, *rest]
            count += 2 if column < 0 else 1
        return [{4: b"table", 5: count}, *elements]

    def leaves(self, column: int) -> list[int]:
        """Numbers of the leaves of a column of the inputs."""
        paths = [leaf.path[0] for leaf in self.inputs[0].footer.leaves]
        name = self.inputs[0].footer.schema.children[column].name
        return [number for number, top in enumerate(paths) if top == name]

    def into(self, sink: ByteSink) -> AssembledFile:
        """Assemble."""
        assembler = Assembler(sink, self.schema(), created_by=CREATED_BY, key_values={"who": "a test"})
        number = 0
        for file, group in self.case.picks:
            source = self.inputs[file]
            rows = source.footer.row_groups[group].rows
            picks: list[Pick] = []
            column_of: dict[int, int] = {}
            for column in self.case.order:
                if column < 0:
                    # an empty row group is not in the made up file: any of its input's chunks stands for it
                    picks += [Pick(self.made, number, leaf) for leaf in (0, 1)] if rows else []
                    continue
                for leaf in self.leaves(column):
                    column_of[leaf] = len(picks)
                    picks.append(Pick(source, group, leaf))
            if not rows and len(picks) < len(assembler.leaves):
                continue
            sorting = sorting_columns(source.footer.row_groups[group], column_of)
            assembler.add(rows, picks, sorting)
            if rows:
                self.picks.append(picks)
                self.sorting.append(sorting)
                number += 1
        return assembler.finish()


def judge(data: bytes, making: Making, assembled: AssembledFile) -> None:
    """What must hold wherever the bytes lie."""
    case = making.case
    same_rows(data, case.expected)
    described_well(data, assembled, case.groups)
    output = Input(Stored(data))
    assert output.why_nothing_copied is None
    groups = zip(output.footer.row_groups, making.picks, making.sorting, strict=True)
    for number, (group, picks, sorting) in enumerate(groups):
        assert group.fields.get(4) == sorting
        assert all(output.why_not_copied(number, column, walk=False) is None for column in range(len(picks)))
        for chunk, pick in zip(group.chunks, picks, strict=True):
            same_chunk(data, chunk, pick)
    statistics_hold(data)


def judge_with_duckdb(case: Case, folder: Path) -> None:
    """DuckDB finds in the output what it finds in the inputs."""
    named = {f"new name {place}": f"c{column}" for place, column in enumerate(case.order) if column >= 0}
    beyond = {name for file in case.files for name in beyond_duckdb(file.data)}
    columns = {new: old for new, old in named.items() if old not in beyond}
    rows = []
    for number, file in enumerate(case.files):
        path = folder / f"input-{number}.parquet"
        path.write_bytes(file.data)
        rows += [Rows(path, sum(file.groups[:g]), file.groups[g]) for f, g in case.picks if f == number]
    output = folder / "local.parquet"
    found = duckdb_sums([Rows(output, 0, sum(case.groups))], list(columns))
    assert found == duckdb_sums(rows, list(columns.values()))
    if -1 in case.order:
        made = folder / "made.parquet"
        pq.write_table(case.made, made)
        everything = [Rows(path, 0, sum(case.groups)) for path in (output, made)]
        assert duckdb_sums(everything[:1], MADE.names) == duckdb_sums(everything[1:], MADE.names)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where files lie for those who want a path."""
    return tmp_path_factory.mktemp("assembly")


@given(case=cases())
def test_any_row_groups_of_any_files(case: Case, folder: Path) -> None:
    local = Making(case, stored=True)
    sink = FileSink(folder / "local.parquet")
    assembled = local.into(sink)
    sink.close()
    judge((folder / "local.parquet").read_bytes(), local, assembled)
    if case.groups:
        judge_with_duckdb(case, folder)

    spliced, parts = Making(case), PartsSink()
    assembled = spliced.into(parts)
    judge(parts.data, spliced, assembled)
