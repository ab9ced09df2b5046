"""Catalogs are asked for changes without Java, and all tables of a database with one query."""

import gzip
import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
import requests

from icepact.iceberg.catalogs import embedded
from icepact.iceberg.polling import UNKNOWN, _RestWatcher, watcher_of
from icepact.model.errors import CatalogUnusable
from icepact.model.history import COMMIT_ID
from icepact.policy.config import Catalog
from tests.support.listed import listed, snapshot, write_metadata


def test_all_tables_of_a_database_are_one_query(tmp_path: Path) -> None:
    catalog = listed(
        tmp_path,
        [("db", "t", "m1", "TABLE"), ("db.raw", "odd name", "m2", None), ("db", "v", "m3", "VIEW")],
    )
    watcher = watcher_of(catalog)
    assert watcher is not None
    assert watcher.markers() == {"db.t": "m1", "db.raw.`odd name`": "m2"}
    assert watcher.metadata("db.t") is None


def test_ten_thousand_tables_are_asked_for_in_well_below_a_second(tmp_path: Path) -> None:
    catalog = listed(
        tmp_path, [(f"n{n % 100}", f"t{n}", f"file:/w/n/t{n}/metadata/1.json", "TABLE") for n in range(10_000)]
    )
    watcher = watcher_of(catalog)
    assert watcher is not None
    first = watcher.markers()
    began = time.process_time()
    assert watcher.markers() == first
    assert time.process_time() - began < 0.4
    assert first is not None
    assert len(first) == 10_000


def test_metadata_tells_what_writers_did_and_what_a_table_wants(tmp_path: Path) -> None:
    document = {
        "properties": {"icepact.schedule": "6h", "write.format.default": "parquet"},
        "snapshots": [
            snapshot(3),
            snapshot(1),
            snapshot(2, operation="replace"),
            snapshot(4, operation="overwrite", **{"icepact.commit-id": "r/1/1"}),
            snapshot(5, operation="delete"),
        ],
    }
    (tmp_path / "1.json").write_text(json.dumps(document))
    watcher = watcher_of(listed(tmp_path, [("db", "t", f"file:{tmp_path}/1.json", "TABLE")]))
    assert watcher is not None
    watcher.markers()
    found = watcher.metadata("db.t")
    assert found is not None
    assert [commit.snapshot_id for commit in found.commits] == [1, 3, 5]
    assert found.known_since == found.commits[0].at == datetime(1970, 1, 1, 1, tzinfo=UTC)
    assert found.properties == {"icepact.schedule": "6h"}


def test_the_history_of_a_table_is_read_as_it_is_now(tmp_path: Path) -> None:
    catalog = listed(tmp_path, [("db.raw", "odd name", "", "TABLE"), ("db", "gone", "s3://b/1.json", "TABLE")])
    watcher = watcher_of(catalog)
    assert watcher is not None
    assert watcher.history("db.raw.`odd name`") is None
    write_metadata(tmp_path, "odd name", 1, [snapshot(1, total="3"), snapshot(2, **{COMMIT_ID: "r/1/1", "total": "2"})])
    found = watcher.history("db.raw.`odd name`")
    assert found is not None
    assert [dict(node.summary) for node in found.snapshots] == [
        {},
        {"operation": "append", COMMIT_ID: "r/1/1", "total": "2"},
    ]
    write_metadata(tmp_path, "odd name", 2, [snapshot(3)])
    later = watcher.history("db.raw.`odd name`")
    assert later is not None
    assert [node.snapshot_id for node in later.snapshots] == [3]
    assert watcher.history("db.gone") is None
    assert watcher.history("db.nobody") is None


def test_a_rest_catalog_tells_the_history_of_a_table_that_was_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps({"metadata-location": "m1", "metadata": {"snapshots": [snapshot(7, **{COMMIT_ID: "r/1/1"})]}})
    said = {("a.b", "t"): answer_of(200, text.encode()), ("a", "dropped"): answer_of(404, b"{}")}
    watcher = _RestWatcher(Catalog(name="lake", properties={"type": "rest", "uri": "http://nowhere"}))
    monkeypatch.setattr(watcher, "_asked", lambda parts, snapshots: said[parts] if snapshots == "all" else None)
    found = watcher.history("`a.b`.t")
    assert found is not None
    assert [(node.snapshot_id, node.summary[COMMIT_ID]) for node in found.snapshots] == [(7, "r/1/1")]
    assert watcher.history("a.dropped") is None


ENDLESS = '{"snapshots": [{"snapshot-id": 1, "timestamp-ms": 1' + "0" * 30 + "}]}"


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '{"snapshots": 7}', '{"snapshots": [{}]}', ENDLESS])
def test_metadata_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "1.json").write_text(text)
    watcher = watcher_of(listed(tmp_path, [("db", "t", f"file:{tmp_path}/1.json", "TABLE")]))
    assert watcher is not None
    watcher.markers()
    assert watcher.metadata("db.t") is None
    assert watcher.history("db.t") is None


def test_nobody_knows_the_tables_of_a_catalog_that_is_not_there_and_it_is_not_made(tmp_path: Path) -> None:
    watcher = watcher_of(embedded(str(tmp_path / "none")))
    assert watcher is not None
    assert watcher.markers() is None
    assert watcher.history("db.t") is None
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("name", ["w", "50% of w?&#é"])
def test_a_catalog_that_was_put_in_the_place_of_another_one_is_looked_at(tmp_path: Path, name: str) -> None:
    there, other = tmp_path / name, tmp_path / "other"
    there.mkdir()
    other.mkdir()
    watcher = watcher_of(listed(there, [("db", "t", "m1", "TABLE")]))
    assert watcher is not None
    assert watcher.markers() == {"db.t": "m1"}
    listed(other, [("db", "u", "m2", "TABLE")])
    (other / "catalog.db").replace(there / "catalog.db")
    assert watcher.markers() == {"db.u": "m2"}


def test_a_catalog_that_vanishes_while_it_is_asked_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = watcher_of(embedded(str(tmp_path)))
    monkeypatch.setattr(Path, "is_file", lambda _: True)
    assert watcher is not None
    with pytest.raises(CatalogUnusable):
        watcher.markers()
    assert list(tmp_path.iterdir()) == []


def test_a_catalog_that_does_not_answer_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_text("this is no database, and it is long enough to be seen as none" * 20)
    watcher = watcher_of(embedded(str(tmp_path)))
    assert watcher is not None
    with pytest.raises(CatalogUnusable, match="the catalog local cannot be asked for changes: DatabaseError"):
        watcher.markers()


@pytest.mark.parametrize(
    "properties", [{"type": "hive", "uri": "thrift://h"}, {"type": "glue"}, {"type": "jdbc", "uri": "jdbc:mysql://h/d"}]
)
def test_other_catalogs_are_not_asked(properties: dict[str, str]) -> None:
    assert watcher_of(Catalog(name="c", properties=properties)) is None


@pytest.mark.parametrize(
    "cut", [gzip.compress(b"{}")[:-4], gzip.compress(b"{}" * 99)[:12] + b"\xff" * 9], ids=["short", "garbage"]
)  # what gzip writes has the time in it: no names of tests that all workers agree on
def test_metadata_that_was_cut_is_none(tmp_path: Path, cut: bytes) -> None:
    (tmp_path / "1.gz.metadata.json").write_bytes(cut)
    watcher = watcher_of(listed(tmp_path, [("db", "t", f"file:{tmp_path}/1.gz.metadata.json", "TABLE")]))
    assert watcher is not None
    watcher.markers()
    assert watcher.metadata("db.t") is None


def answer_of(status: int, content: bytes) -> requests.Response:
    """What a REST catalog says of a table."""
    answer = requests.Response()
    answer.status_code, answer._content = status, content
    return answer


def test_a_table_of_which_a_rest_catalog_cannot_tell_keeps_nobody_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {
        "well": answer_of(200, b'{"metadata-location": "m1", "metadata": {}}'),
        "sick": answer_of(500, b"oops"),
        "odd": answer_of(200, b"[]"),
        "secret": answer_of(403, b"{}"),
        "dropped": answer_of(404, b"{}"),
    }
    watcher = _RestWatcher(Catalog(name="lake", properties={"type": "rest", "uri": "http://nowhere"}))
    monkeypatch.setattr(watcher, "_client", lambda: None)
    monkeypatch.setattr(watcher, "_listed", lambda client, above: [("db", name) for name in said])
    monkeypatch.setattr(watcher, "_asked", lambda parts, snapshots, tag="": said[parts[-1]])
    assert watcher.markers() == {"db.well": "m1", "db.sick": UNKNOWN, "db.odd": UNKNOWN, "db.secret": UNKNOWN}
    assert [watcher.metadata(f"db.{name}") for name in ("sick", "odd", "secret")] == [None] * 3
    del said["well"]
    with pytest.raises(CatalogUnusable, match="of any table"):
        watcher.markers()
