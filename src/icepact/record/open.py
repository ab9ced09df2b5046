"""A record store by its address. What a kind needs is loaded when an address asks for it."""

from icepact.model.errors import BadInput
from icepact.record.store import RecordStore

MEMORY = "memory"
_KNOWN = "memory, sqlite:///path, postgresql://user@host/database, redis://host:6379/0 or etcd://host:2379"


def shown_address(address: str) -> str:
    """An address without what may be secret in it."""
    scheme, separator, rest = address.partition("://")
    host, slash, path = rest.partition("?")[0].partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"


def open_store(address: str) -> RecordStore:
    """The store at an address. Nothing is connected to yet."""
    named, separator, _ = address.partition("://")
    scheme = named.partition("+")[0] if separator else ""
    if address == MEMORY:
        from icepact.record.kv.store import KvStore

        return KvStore.in_memory()
    if scheme in ("redis", "rediss"):
        from icepact.record.kv.redis import Redis
        from icepact.record.kv.store import KvStore

        return KvStore(Redis(address))
    if scheme in ("etcd", "etcds"):
        from icepact.record.kv.etcd import Etcd
        from icepact.record.kv.store import KvStore

        return KvStore(Etcd(address))
    if scheme in ("postgresql", "postgres") or (address.startswith("sqlite:///") and address != "sqlite:///"):
        from icepact.record.sql import SqlStore

        return SqlStore("postgresql" + address.removeprefix("postgres") if scheme == "postgres" else address)
    raise BadInput(f"the record store's address is none: write {_KNOWN}")
