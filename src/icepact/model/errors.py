"""Every error icepact raises on purpose.

    IcepactError
    ├── BadInput                 refused at the door: nothing was started
    │   ├── TableNotFound
    │   ├── JobNotFound
    │   ├── TenantNotFound
    │   ├── KeyNotFound
    │   ├── NotAllowed           the key is good, and its role does not go so far
    │   ├── NotFound             something else that was named is not there
    │   ├── Unauthorized         whoever asks has shown no key that is good
    │   ├── Conflict             as things are, it cannot be done: a job has ended, a key stands for another request
    │   ├── Unsupported          the table or runtime is one we will not touch
    │   ├── TablePaused          runs on it failed one after the other: it is left alone for a while
    │   ├── StoreUnusable        the record store cannot be reached, read or written
    │   └── SetupMissing         Java, jars or a package is missing; the message says what to do
    ├── CatalogUnusable          the catalog as a whole cannot be opened
    ├── TemporaryError           trying again can help
    │   ├── HeadMoved            somebody committed in between: judge again at the new head
    │   ├── TableBusy            another run works on the table
    │   ├── QuotaUsed            the tenant has spent what it may in an hour: the job waits
    │   ├── TooManyRequests      whoever asks has asked too often
    │   └── ServiceUnreachable   the service does not answer
    ├── PermanentError           trying again cannot help
    │   ├── ProofFailed          the new files are not the same rows: never committed
    │   ├── CommitRefused        the commit certainly did not land
    │   ├── StorageFull          storage takes nothing more: the commit never got as far as the catalog
    │   ├── RunLost              another process has taken the run over: this one must stop
    │   ├── JobLost              another worker has taken the job over: what this one says is not listened to
    │   ├── Cancelled            somebody asked the run to stop
    │   └── CommitBroken         the commit landed and is wrong: rolled back if possible, nothing deleted
    ├── CommitUnknown            nobody knows whether the commit landed: nothing may be deleted
    └── Unfinished               what is left of a run is on record: it stays open, and is carried on with

The message defaults to the first line of the class docstring. Errors carry one string, so they
survive pickling to and from executors.
"""


class IcepactError(Exception):
    """Something went wrong in icepact."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip().splitlines()[0])


class BadInput(IcepactError):
    """The request cannot be carried out as given."""


class TableNotFound(BadInput):
    """There is no such table."""


class JobNotFound(BadInput):
    """There is no such job."""


class TenantNotFound(BadInput):
    """There is no such tenant."""


class KeyNotFound(BadInput):
    """There is no such key."""


class NotAllowed(BadInput):
    """The role of this key does not allow it."""


class NotFound(BadInput):
    """There is no such thing."""


class Unauthorized(BadInput):
    """A key is needed, and none that is good was given."""


class Conflict(BadInput):
    """As things are, this cannot be done."""


class Unsupported(BadInput):
    """icepact does not work on this table or with this runtime."""


class TablePaused(BadInput):
    """The table is left alone for a while, since runs on it failed."""


class StoreUnusable(BadInput):
    """The record store cannot be used."""


class SetupMissing(BadInput):
    """Something icepact needs is not installed."""


class CatalogUnusable(IcepactError):
    """The catalog cannot be opened."""


class TemporaryError(IcepactError):
    """It did not work this time; trying again can help."""


class HeadMoved(TemporaryError):
    """Somebody else committed to the table in between."""


class TableBusy(TemporaryError):
    """Another run works on the table."""


class QuotaUsed(TemporaryError):
    """The tenant has spent what it may in an hour."""


class TooManyRequests(TemporaryError):
    """Too many requests; later ones are answered again."""


class ServiceUnreachable(TemporaryError):
    """The service does not answer."""


class PermanentError(IcepactError):
    """It did not work and will not work by trying again."""


class ProofFailed(PermanentError):
    """The new files do not hold the same rows as the old ones."""


class CommitRefused(PermanentError):
    """The catalog refused the commit."""


class StorageFull(PermanentError):
    """Storage takes nothing more; the commit was not carried out."""


class RunLost(PermanentError):
    """Another process has taken the run over."""


class JobLost(PermanentError):
    """Another worker has taken the job over."""


class Cancelled(PermanentError):
    """The run was cancelled."""


class CommitBroken(PermanentError):
    """The commit landed, but the table is not what it should be."""


class CommitUnknown(IcepactError):
    """It is not known whether the commit landed; nothing was deleted."""


class Unfinished(IcepactError):
    """What is left of the run is on record, and is done once it is resumed."""


FULL = "database or disk is full"
"""As SQLite says it."""


_FULL = ("no space left", "disk quota exceeded", FULL, "[sqlite_full]")


def is_full(text: str) -> bool:
    """Whether a message is about a disk without room."""
    return any(word in text.lower() for word in _FULL)


def no_room(where: str | None) -> str:
    """What is to be done; `where` is a folder on the disk, if it is known which."""
    return f"no space left{f' on the disk of {where}' if where else ''}: free some, then compact again"
