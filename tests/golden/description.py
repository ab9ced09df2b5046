"""How a case describes a table. A case is a YAML file:

    policy: {target_file_size: 128MB}            options as a user gives them
    partitions:                                  day=... is of the current spec, region=... and (all) of old ones
      day=2026-01-01:
        - 6 x 10MB                               six files of 10 MB, written in snapshot 1, a thousand rows each
        - 1 x 500MB, 200 rows, in snapshot 3
    deletes:                                     what they apply to follows from Iceberg's rules
      - dv on day=2026-01-01/0, 40 records       a vector of that partition's first file
      - position in day=2026-01-01, 40 records   position deletes that speak of the whole partition
      - equality in day=2026-01-01, 5 records, in snapshot 4
      - equality everywhere, 5 records
    last_run: {pinned: 4, committed: 5}          a complete run with the same policy
    live_twice: [day=2026-01-01/0]               a path that the snapshot lists more than once

Deletes are written in snapshot 2 unless they say otherwise.
"""

import re
from pathlib import Path
from typing import Any

import yaml

from icepact.model.files import DataFile, DeleteFile, DeleteKind, Partition
from icepact.model.policy import Policy
from icepact.model.snapshot import LastRun, PinnedFiles
from icepact.policy.units import parse_size
from tests.support.states import BY_DAY, BY_REGION, attach, data_file, delete_file, make_policy, make_state

_FILES = re.compile(r"(?P<count>\d+) x (?P<size>\S+?)(, (?P<rows>\d+) rows)?(, in snapshot (?P<number>\d+))?")
_DELETE = re.compile(
    r"(?P<kind>dv|position|equality) (on|in|(?P<everywhere>everywhere))( (?P<place>[^,/]+)(/(?P<file>\d+))?)?"
    r", (?P<records>\d+) records(, in snapshot (?P<number>\d+))?"
)


def read_case(path: Path) -> tuple[PinnedFiles, Policy]:
    """The table and the policy that a case describes."""
    case = yaml.safe_load(path.read_text())
    unknown = set(case) - {"policy", "partitions", "deletes", "last_run", "live_twice"}
    if unknown:
        raise ValueError(f"{path.name}: unknown keys {sorted(unknown)}")
    policy = make_policy(**case.get("policy", {}))
    files = [f for name, lines in case["partitions"].items() for f in _files(name, lines)]
    deletes = [_delete(n, line) for n, line in enumerate(case.get("deletes", ()))]
    twice = frozenset(case.get("live_twice", ()))
    state = make_state(
        attach([*files, *(f for f in files if f.path in twice)], deletes),
        deletes,
        last_run=_last_run(case.get("last_run"), policy),
        live_twice=twice,
    )
    return state, policy


def _place(name: str) -> tuple[int, Partition]:
    """The spec and the partition of a name such as `day=2026-01-01`."""
    field, _, value = name.partition("=")
    spec_id = {"day": BY_DAY.spec_id, "region": BY_REGION.spec_id, "(all)": 0}[field]
    return spec_id, (value,) if spec_id else ()


def _files(name: str, lines: list[str]) -> list[DataFile]:
    spec_id, partition = _place(name)
    found: list[DataFile] = []
    for line in lines:
        told = _matched(_FILES, line)
        for _ in range(int(told["count"])):
            path = f"{name}/{len(found)}"
            number, rows = int(told["number"] or 1), int(told["rows"] or 1000)
            facts = {"spec_id": spec_id, "partition": partition, "sequence_number": number, "rows": rows}
            found.append(data_file(path, parse_size(told["size"]), **facts))
    return found


def _delete(number: int, line: str) -> DeleteFile:
    told = _matched(_DELETE, line)
    spec_id, partition = (0, ()) if told["everywhere"] else _place(told["place"])
    return delete_file(
        f"delete-{number}",
        DeleteKind(told["kind"]),
        spec_id=spec_id,
        partition=partition,
        records=int(told["records"]),
        sequence_number=int(told["number"] or 2),
        referenced=f"{told['place']}/{told['file']}" if told["file"] else None,
    )


def _last_run(told: dict[str, int] | None, policy: Policy) -> LastRun | None:
    if told is None:
        return None
    return LastRun(
        layout=policy.fingerprint,
        snapshot_id=99,
        own_sequence_numbers=frozenset({told["committed"]}),
        pinned_sequence_number=told["pinned"],
    )


def _matched(pattern: re.Pattern[str], line: str) -> dict[str, Any]:
    match = pattern.fullmatch(line)
    if match is None:
        raise ValueError(f"{line!r} is not understood: see tests/golden/description.py")
    return match.groupdict()
