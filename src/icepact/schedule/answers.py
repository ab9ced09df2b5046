"""What workers leave in the record store for whoever asks later: the last health of each table, the list of tables,
rankings, plans that can be carried out, and the workers themselves."""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from icepact.model.document import StoredDocument
from icepact.model.errors import BadInput, NotFound
from icepact.record.store import DocumentStore

HEALTH = "health"
"""Documents `{"health": ..., "taken_at": ..., "snapshot_id": ...}`, by `health_key`."""
_GIST = "health-gist"
"""The same without lists and mappings, for whoever asks about all tables at once: these can be long."""
TABLES = "tables"
"""Documents `{"tables": [...], "taken_at": ...}`, by the catalog's name in the record store."""
WORKER = "worker"
"""Documents of workers, by `HOST/PID/SINCE`, with the fields of `KnownWorker`."""
_SEEN_FOR = timedelta(seconds=60)
"""A worker says every 15 seconds that it is there."""
_PLAN = "plan"
_RANKING = "ranking"
_PIECE = 256 * 1024
"""Characters of a plan or a ranking in one document: stores take only so much at once."""
_MOST_PIECES = 100
_MOST_WORKERS = 10_000


def health_key(catalog: str, table: str) -> str:
    """The key of the health of a table; `catalog` is its name in the record store."""
    return f"{catalog}/{table}"


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownHealth:
    """The health of a table as a worker found it last."""

    health: Mapping[str, Any]
    """As `icepact health --json` prints it; long lists are cut."""
    taken_at: datetime
    snapshot_id: int | None


def keep_health(
    store: DocumentStore, catalog: str, table: str, health: Mapping[str, Any], *, taken_at: datetime
) -> None:
    """Remember the health of a table."""
    body = {"health": health, "taken_at": taken_at.isoformat(), "snapshot_id": health.get("snapshot_id")}
    store.put_document(HEALTH, health_key(catalog, table), body)
    gist = {name: value for name, value in health.items() if not isinstance(value, list | tuple | Mapping)}
    store.put_document(_GIST, health_key(catalog, table), {**body, "health": gist})


def known_health(store: DocumentStore, catalog: str, table: str) -> KnownHealth | None:
    """The health of a table as it was found last; `None` if nobody knows it."""
    found = store.document(HEALTH, health_key(catalog, table))
    return None if found is None else _health(found)


def known_healths(
    store: DocumentStore, catalog: str, *, after: str = "", limit: int = 1000
) -> Mapping[str, KnownHealth]:
    """The gist of the health of each table of a catalog as it was found last, without what there is several of: by
    table, sorted; only tables `after` one."""
    prefix = health_key(catalog, "")
    found = store.documents(_GIST, prefix=prefix, after=f"{prefix}{after}" if after else "", limit=limit)
    return {one.key.removeprefix(prefix): _health(one) for one in found}


def _health(found: StoredDocument) -> KnownHealth:
    return KnownHealth(
        health=found.body["health"],
        taken_at=datetime.fromisoformat(found.body["taken_at"]),
        snapshot_id=found.body["snapshot_id"],
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownWorker:
    """A worker as it was heard of last."""

    catalog: str
    """Name of the catalog in the record store whose jobs it does."""
    host: str
    pid: int
    since: datetime
    state: str
    """starting, idle, busy or stopping."""
    job: str | None
    """What it does; `None` if nothing."""
    jobs: int
    """How many it has done."""
    seen_at: datetime

    def is_there(self, now: datetime) -> bool:
        """Whether it was heard of lately."""
        return now - self.seen_at < _SEEN_FOR


def keep_worker(store: DocumentStore, key: str, worker: KnownWorker) -> None:
    """Remember that a worker is there."""
    moments = {"since": worker.since.isoformat(), "seen_at": worker.seen_at.isoformat()}
    store.put_document(WORKER, key, {**asdict(worker), **moments})


def known_workers(store: DocumentStore, catalog: str) -> Sequence[KnownWorker]:
    """The workers of a catalog that were heard of within a day, also if they have died since."""
    found = [one.body for one in store.documents(WORKER, limit=_MOST_WORKERS) if one.body["catalog"] == catalog]
    moments = ("since", "seen_at")
    fields = KnownWorker.__slots__  # a later version may have more
    known = [{name: body[name] for name in fields} for body in found]
    return [KnownWorker(**{**body, **{at: datetime.fromisoformat(body[at]) for at in moments}}) for body in known]


def keep_tables(store: DocumentStore, catalog: str, tables: Sequence[str], *, taken_at: datetime) -> None:
    """Remember which tables there are."""
    store.put_document(TABLES, catalog, {"tables": list(tables), "taken_at": taken_at.isoformat()})


def known_tables(store: DocumentStore, catalog: str) -> tuple[Sequence[str], datetime] | None:
    """The tables of a catalog as they were listed last, and when; `None` if nobody has listed them."""
    found = store.document(TABLES, catalog)
    return None if found is None else (found.body["tables"], datetime.fromisoformat(found.body["taken_at"]))


def keep_plan(store: DocumentStore, job_id: str, plan: bytes) -> bool:
    """Keep the saved plan that a job has made, in pieces; false if it is too large."""
    return _keep(store, _PLAN, job_id, plan)


def kept_plan(store: DocumentStore, job_id: str) -> bytes:
    """The saved plan that a job has made; BadInput if it made none, or if it is not kept any more."""
    found = _kept(store, _PLAN, job_id)
    if found is None:
        raise BadInput(f"there is no plan of job {job_id}, or it is not kept any more: plan again")
    return found


def keep_ranking(store: DocumentStore, job_id: str, ranking: bytes) -> bool:
    """Keep the ranking that a job has made; false if it is too large."""
    return _keep(store, _RANKING, job_id, ranking)


def kept_ranking(store: DocumentStore, job_id: str) -> Mapping[str, Any]:
    """The ranking that a job has made; NotFound if it made none, or if it is not kept any more."""
    found = _kept(store, _RANKING, job_id)
    if found is None:
        raise NotFound(f"there is no ranking of job {job_id}, or it is not kept any more: rank again")
    document: dict[str, Any] = json.loads(found)
    return document


def _keep(store: DocumentStore, kind: str, job_id: str, content: bytes) -> bool:
    text = base64.b64encode(zlib.compress(content, 6)).decode()
    pieces = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
    if len(pieces) > _MOST_PIECES:
        return False
    for at, piece in enumerate(pieces):
        body = {"piece": piece, "of": len(pieces)}
        store.put_document(kind, f"{job_id}/{at:03}", body)
    return True


def _kept(store: DocumentStore, kind: str, job_id: str) -> bytes | None:
    found = store.documents(kind, prefix=f"{job_id}/", limit=_MOST_PIECES)
    if not found or len(found) != found[0].body["of"]:
        return None
    return zlib.decompress(base64.b64decode("".join(one.body["piece"] for one in found)))


def forget_answers(store: DocumentStore, *, plans_before: datetime, workers_before: datetime) -> None:
    """Drop plans and rankings that are old, and workers that were not seen for long."""
    for kind in (_PLAN, _RANKING):
        store.forget_documents(kind, before=plans_before)
    store.forget_documents(WORKER, before=workers_before)
