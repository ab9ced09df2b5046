"""People compact to erase data: what was deleted is nowhere in the new files, whatever part of them one looks at."""

import struct
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.execute.parquet.bloom import hashes, may_contain
from icepact.execute.parquet.input import Input, MemorySource
from icepact.execute.parquet.layout import CODECS, PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY
from tests.support.manifests import described
from tests.support.messy import equality_delete
from tests.support.oracle import data_files
from tests.support.tables import create
from tests.support.ways import SEVERAL_ROW_GROUPS, maybe, rewritten

HIGH, LOW = 2**62 + 12345678901, -(2**62) + 12345678901
SECRETS = {
    # rows 30 and 31 hold the highest and the lowest values of their row group, row 32 some in the middle
    "word": (b"zz secret word", b"!! secret word", b"w1 secret word"),  # in a dictionary
    "text": (b"zz secret text", b"!! secret text", b"t9 secret text"),  # plain
    "num": tuple(struct.pack("<q", number) for number in (HIGH, LOW, 2**60 + 77)),  # plain
    "tags": (b"zz secret tag", b"!! secret tag", b"t9 secret tag"),  # in a dictionary, inside a list
    "city": (b"zz secret city", b"!! secret city", b"c9 secret city"),  # inside a struct
}
BLOOMS = ("word", "text", "num")
KINDS = {"position": 2, "vector": 3, "equality": 2}


def value(name: str, usual: str) -> str:
    """What stands in a column: a secret in three rows."""
    high, low, middle = (
        str(struct.unpack("<q", secret)[0]) + "L" if name == "num" else f"'{secret.decode()}'"
        for secret in SECRETS[name]
    )
    return maybe(f"CASE id WHEN 30 THEN {high} WHEN 31 THEN {low} WHEN 32 THEN {middle} ELSE {usual} END")


@pytest.fixture
def table(spark: SparkSession, namespace: str, kind: str) -> str:
    """Nothing is compressed, so that all there is stands in the files byte by byte."""
    blooms = {f"write.parquet.bloom-filter-enabled.column.{name}": "true" for name in BLOOMS}
    properties = {**SEVERAL_ROW_GROUPS, **blooms, "write.parquet.compression-codec": "uncompressed"}
    columns = "id bigint, word string, text string, num bigint, tags array<string>, place struct<city: string>"
    create(spark, f"{namespace}.t", columns, version=KINDS[kind], properties=properties)
    spark.range(0, 200, 1, 5).selectExpr(
        f"{maybe('id')} AS id",
        f"{value('word', '''concat('w', id % 3)''')} AS word",
        f"{value('text', '''concat('t', sha2(string(id), 256))''')} AS text",
        f"{value('num', 'id * 1000003')} AS num",
        f"{maybe('array(' + value('tags', '''concat('t', id % 2)''') + ')')} AS tags",
        f"{maybe('''named_struct('city', ''' + value('city', '''concat('c', id % 2)''') + ')')} AS place",
    ).writeTo(f"{namespace}.t").append()
    return f"{namespace}.t"


def found(paths: list[str]) -> set[bytes]:
    """The secrets that stand somewhere in files, or that a bloom filter remembers."""
    remembered: set[bytes] = set()
    for path in paths:
        data = Path(path).read_bytes()
        remembered |= {secret for secrets in SECRETS.values() for secret in secrets if secret in data}
        stored = Input(MemorySource(data))
        for place, leaf in enumerate(stored.footer.leaves):
            secrets = SECRETS.get(leaf.path[0].decode(), ())
            for group in stored.footer.row_groups:
                bloom = stored.bloom(group.chunks[place])
                assert (bloom is not None) >= (
                    leaf.path[0].decode() in ("text", "num")
                )  # Spark: not beside dictionaries
                if bloom is not None:
                    may = may_contain(bloom, hashes(secrets))
                    remembered |= {secret for secret, yes in zip(secrets, may, strict=True) if yes}
    return remembered


def encodings(path: str, group: int) -> dict[str, set[int]]:
    """How the columns of a row group are encoded, levels aside."""
    footer = Input(MemorySource(Path(path).read_bytes())).footer
    chunks = zip(footer.leaves, footer.row_groups[group].chunks, strict=True)
    assert {chunk.codec for chunk in footer.row_groups[group].chunks} == {CODECS["uncompressed"]}
    return {leaf.path[-1].decode(): set(chunk.data_encodings or ()) for leaf, chunk in chunks}


@pytest.mark.parametrize("way", ["copy", "encode", pytest.param("spark", marks=pytest.mark.matrix)])
@pytest.mark.parametrize("kind", KINDS)
def test_deleted_values(compactor: Compactor, spark: SparkSession, table: str, kind: str, way: str) -> None:
    """Not in dictionaries, pages, statistics, page indexes, bloom filters; and not in the manifests."""
    inputs = data_files(spark, table)
    everything = {secret for secrets in SECRETS.values() for secret in secrets}
    assert found(inputs) == everything
    before = encodings(inputs[0], 1)
    for name in ("word", "element"):
        assert before[name] <= {PLAIN_DICTIONARY, RLE_DICTIONARY}, name
    for name in ("text", "num"):
        assert before[name] == {PLAIN}, name
    if kind == "equality":
        equality_delete(spark, f"local.{table}", [{"id": n} for n in (30, 31, 32)], columns=["id"])
    else:
        spark.sql(f"DELETE FROM {table} WHERE id IN (30, 31, 32)")

    rewritten(compactor, table, way, lineage=kind == "vector", copied=9 if way == "copy" else 0)

    [path] = data_files(spark, table)
    assert found([path]) == set()
    group = 1 if way == "copy" else 0
    after = encodings(path, group)
    assert after["word"] <= {PLAIN_DICTIONARY, RLE_DICTIONARY}
    assert after["text"] == {PLAIN}
    told = described(spark, table)[path]
    bounds = {*told["lower-bounds"].values(), *told["upper-bounds"].values()}
    assert not {secret.hex().upper() for secret in everything} & bounds
    assert spark.sql(f"SELECT count(*) FROM {table} WHERE id IN (29, 33)").collect()[0][0] == 2
