"""Facts about the manifests of a snapshot, from the list of them alone; in one transfer."""

import re
from typing import Any

from icepact.iceberg.java.bridge import retry_reads, through_a_file
from icepact.iceberg.java.classes import instance_of
from icepact.iceberg.table.table import FACT_PREFIX, IcebergTable
from icepact.model.manifests import FieldRange, ManifestFacts

CLUSTERED = f"{FACT_PREFIX}manifests"
"""Summary property of snapshots that have rewritten manifests: what was asked for."""
_STAGED = "icepact-{run}-m-{word}-"
_OURS = re.compile(r"/icepact-(.+-m-[0-9a-f]{8})-\d+-\d+\.avro$")


def staged_prefix(table: IcebergTable, run_id: str, word: str) -> str:
    """Where an attempt of a run writes manifests: path and beginning of their names; `word` is eight hex digits of the
    attempt."""
    name = _STAGED.format(run=re.sub(r"[^\w.-]", "-", run_id), word=word)
    return str(table.table.operations().metadataFileLocation(name))


@retry_reads
def manifests_at(table: IcebergTable, snapshot: Any) -> list[ManifestFacts]:
    """All manifests of a snapshot, in the order of its list."""
    listed = snapshot.allManifests(table.table.io())
    reading = instance_of(table.java, "ManifestRanges")
    version = table.format_version
    text = through_a_file(lambda path: reading.write(table.table, listed, version, CLUSTERED, path)).decode()
    return [_facts(line.split("\t"), version) for line in text.split("\n")[:-1]]


def without_row_ids(manifests: list[ManifestFacts], version: int) -> bool:
    """Whether the next commit, whoever makes it, will give ids to rows that have none yet."""
    return version >= 3 and any(not manifest.deletes and not manifest.has_row_ids for manifest in manifests)


def _facts(fields: list[str], version: int) -> ManifestFacts:
    path, spec_id, deletes, length, overhead, live, dead, sequence, row_ids, snapshot, time, fact, lost, known = fields[
        :14
    ]
    numbers = [int(number) for number in fields[14:]]
    named = _OURS.search(path)
    run = named[1] if named else snapshot if fact else ""
    ranges = [FieldRange(numbers[i], numbers[i + 1], bool(numbers[i + 2])) for i in range(0, len(numbers), 3)]
    return ManifestFacts(
        path=path,
        spec_id=int(spec_id),
        deletes=deletes == "1",
        length=int(length),
        overhead=int(overhead),
        live=int(live) if live else None,
        dead=int(dead),
        ranges=tuple(ranges) if known == "1" else None,
        order=int(time) if version == 1 else int(sequence),
        run=run,
        wishes=fact,
        has_row_ids=row_ids == "1",
        unwritable=lost == "1",
    )
