"""All that is kept over keys and values, as rows to be copied."""

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from icepact.record.kv.base import KvBase
from icepact.record.kv.caches import STATS_TOTAL, stat_index
from icepact.record.kv.documents import DOCUMENT_MOMENTS, age_key
from icepact.record.kv.jobs import JOB_MOMENTS, job_index
from icepact.record.kv.keys import below, key, parts_of
from icepact.record.kv.leases import FAILURE_MOMENTS, LEASE_MOMENTS
from icepact.record.kv.rows import moment_text, row_bytes, row_of
from icepact.record.kv.runs import RUN_MOMENTS, run_index
from icepact.record.kv.space import Change
from icepact.record.rows import KEYS, Row

Values = Mapping[str, bytes]
_KINDS = {
    "leases": "lease",
    "runs": "run",
    "checkpoints": "unit",
    "failures": "failure",
    "lessons": "lessons",
    "clocks": "compacted",
    "jobs": "job",
    "turns": "job-turns",
    "documents": "document",
    "sheets": "stat-meta",
}
"""First parts of the keys that hold the rows of each table."""
_MOMENTS: Mapping[str, tuple[str, ...]] = {
    "leases": LEASE_MOMENTS,
    "runs": RUN_MOMENTS,
    "failures": FAILURE_MOMENTS,
    "jobs": JOB_MOMENTS,
    "documents": DOCUMENT_MOMENTS,
}
"""Of tables whose rows are kept as JSON, the columns that are moments."""


class KvShelves(KvBase):
    """The part of a store that is copied to others."""

    def count_rows(self, table: str) -> int:
        """How many rows of a table there are."""
        if table == "turns":
            return sum(1 for _ in self.rows(table))
        return sum(1 for _ in self._space.names(below(_KINDS[table])))

    def rows(self, table: str) -> Iterator[Row]:
        """All rows of a table."""
        for name, value in self._space.scan(below(_KINDS[table])):
            parts = parts_of(name)[1:]
            if table == "turns":
                for tenant, at in json.loads(value).items():
                    yield {"catalog": parts[0], "tenant": tenant, "taken_at": datetime.fromisoformat(at)}
            elif table in _MOMENTS:
                row = row_of(value, _MOMENTS[table])
                yield {**row, **self._beside(table, row)} if table in ("runs", "jobs") else row
            else:
                yield dict(zip(KEYS[table], parts, strict=True)) | self._rest(table, parts, value)

    def _beside(self, table: str, row: Row) -> dict[str, Any]:
        """Columns of a run or a job that have keys of their own."""
        if table == "runs":
            plan, outcome = key("plan", row["run_id"]), key("outcome", row["run_id"])
            found = self._space.get([plan, outcome])
            return {"plan": found.get(plan), "outcome": _unpacked(found.get(outcome))}
        plan, result = key("job-plan", row["job_id"]), key("job-result", row["job_id"])
        found = self._space.get([plan, result])
        return {"plan": found.get(plan), "result": _unpacked(found.get(result))}

    def _rest(self, table: str, parts: Sequence[str], value: bytes) -> dict[str, Any]:
        """Columns that are not part of the key."""
        if table == "checkpoints":
            return {"document": value}
        if table == "sheets":
            uuid, size, kept_at = json.loads(value)
            document = self._space.one(key("stat", parts[0])) or b""
            return {"uuid": uuid, "bytes": size, "kept_at": datetime.fromisoformat(kept_at), "document": document}
        return {"since" if table == "lessons" else "at": datetime.fromisoformat(value.decode())}

    def put_rows(self, table: str, rows: Sequence[Row], *, replace: bool) -> int:
        """Write rows; those whose keys are there already only if they are to be replaced. Returns how many."""
        if table == "turns":
            return sum(self._put_turn(row, replace=replace) for row in rows)
        return sum(self._put(table, row, replace=replace) for row in rows)

    def _put(self, table: str, row: Row, *, replace: bool) -> bool:
        name = key(_KINDS[table], *(row[column] for column in KEYS[table]))
        more = _MORE[table](row) if table in _MORE else {}
        compared = [name, STATS_TOTAL] if table == "sheets" else [name]

        def decide(values: Values) -> Change[bool]:
            if name in values and not replace:
                return Change(result=False)
            puts = {name: _value(table, row), **more}
            if table == "sheets":
                before = json.loads(values[name])[1] if name in values else 0
                puts[STATS_TOTAL] = str(int(values.get(STATS_TOTAL) or 0) - before + row["bytes"]).encode()
            old = _index(table, row_of(values[name], _MOMENTS[table])) if name in values and table in _MOMENTS else {}
            return Change(result=True, puts=puts, deletes=[one for one in old if one not in puts])

        return self._space.change(compared, decide, over=[one for one in more if one.startswith(_LARGE)])

    def _put_turn(self, row: Row, *, replace: bool) -> bool:
        name = key("job-turns", row["catalog"])

        def decide(values: Values) -> Change[bool]:
            taken = json.loads(values.get(name, b"{}"))
            if row["tenant"] in taken and not replace:
                return Change(result=False)
            return Change(result=True, puts={name: row_bytes(taken | {row["tenant"]: row["taken_at"]})})

        return self._space.change([name], decide)


_LARGE = tuple(f"{kind}\0" for kind in ("plan", "outcome", "job-plan", "job-result", "stat"))
"""Beginnings of keys that may have parts."""


def _value(table: str, row: Row) -> bytes:
    if table == "checkpoints":
        return bytes(row["document"])
    if table in ("lessons", "clocks"):
        return moment_text(row["since" if table == "lessons" else "at"]).encode()
    if table == "sheets":
        return json.dumps([row["uuid"], row["bytes"], moment_text(row["kept_at"])]).encode()
    if table == "runs":
        return row_bytes(_lean(row, "outcome", plan=row["plan"] is not None))
    return row_bytes(_lean(row, plan=row["plan"] is not None, result=None) if table == "jobs" else row)


def _index(table: str, row: Row) -> dict[str, bytes]:
    match table:
        case "runs":
            return run_index(row)
        case "jobs":
            return job_index(row)
        case "documents":
            return {age_key(row["kind"], row["key"], row["changed_at"]): b""}
        case _:
            return {}


def _run_values(row: Row) -> Values:
    more = run_index({**row, "plan": row["plan"] is not None})
    if row["plan"] is not None:
        more[key("plan", row["run_id"])] = bytes(row["plan"])
    if row["outcome"]:
        more[key("outcome", row["run_id"])] = zlib.compress(row["outcome"].encode(), 1)
    return more


def _job_values(row: Row) -> Values:
    more = job_index(row)
    if row["plan"] is not None:
        more[key("job-plan", row["job_id"])] = bytes(row["plan"])
    if row["result"] is not None:
        more[key("job-result", row["job_id"])] = zlib.compress(row["result"].encode(), 1)
    return more


def _document_values(row: Row) -> Values:
    return _index("documents", row)


def _stat_values(row: Row) -> Values:
    index = dict.fromkeys(stat_index(row["path"], row["uuid"], row["kept_at"]), str(row["bytes"]).encode())
    return {key("stat", row["path"]): bytes(row["document"]), **index}


_MORE: Mapping[str, Callable[[Row], Values]] = {
    "runs": _run_values,
    "jobs": _job_values,
    "documents": _document_values,
    "sheets": _stat_values,
}
"""What is written beside the row itself, of tables where that is something."""


def _lean(row: Row, *without: str, **instead: Any) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in without} | instead


def _unpacked(value: bytes | None) -> str | None:
    return None if value is None else zlib.decompress(value).decode()
