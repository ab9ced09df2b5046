"""What storage has below a table's locations, held against everything that the table needs."""

import os
import re
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

from icepact.iceberg.java.bridge import retry_reads
from icepact.iceberg.java.classes import instance_of
from icepact.iceberg.table.history import read_history
from icepact.iceberg.table.table import IcebergTable
from icepact.model.errors import BadInput
from icepact.model.orphans import OrphanFile

_LOCATIONS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
_GLOBS = re.compile(r"[*?\[{]")
_VERSION_HINT = "version-hint.text"
_MOST_WAITING = 100_000
"""Files of a listing that are remembered until it is known what is needed; then it waits."""
_NAMES = (
    (re.compile(r".*\.metadata\.json(\.gz)?|.*\.gz\.metadata\.json|version-hint\.text"), "J"),
    (re.compile(r"snap-.*\.avro"), "L"),
    (re.compile(r".*-m\d+\.avro"), "M"),
    (re.compile(r".*-deletes\.\w+|.*\.puffin"), "P"),
    (re.compile(r".*\.stats"), "S"),
    (re.compile(r".*\.(parquet|orc|avro)"), "D"),
)
"""What a file was, by its name."""


class Listing(NamedTuple):
    """What was found below some locations."""

    orphans: list[OrphanFile]
    listed: int
    young: int
    """Files that nobody needs and that are too young."""
    marked: int
    """Files that nobody needs and that were protected by a word."""


class Neighbour(NamedTuple):
    """Where another table of the catalog is."""

    locations: tuple[str, ...]
    """The folders that it writes to; of one that cannot be loaded, where its metadata is, if anybody tells."""
    error: str = ""
    """Why it cannot be loaded; empty if it can."""


def kind_of(path: str) -> str:
    """What a file was, by its name; see `FileToDelete`."""
    name = path.rsplit("/", 1)[-1]
    return next((kind for pattern, kind in _NAMES if pattern.fullmatch(name)), "O")


def written_to(table: Any) -> tuple[str, ...]:
    """The folders that a table, Java's own, writes to, as it spells them."""
    properties = table.properties()
    return (str(table.location()), *(str(properties[key]) for key in _LOCATIONS if key in properties))


def locations_of(table: IcebergTable) -> tuple[str, ...]:
    """The folders that a table writes to, none inside another."""
    spelled = sorted({spelled_as_listed(table, path) for path in written_to(table.table)})
    return tuple(path for path in spelled if not any(is_inside(path, other) for other in spelled if other != path))


def spelled_as_listed(table: IcebergTable, path: str) -> str:
    """A folder as its store spells it, without a slash at the end; on this machine by its real name, whatever links
    lead to it."""
    key = str(instance_of(table.java, "Reachability").key(path))
    if not key.startswith("/"):
        return path.rstrip("/")
    return (os.path.realpath(key) if _is_local(table) else key).rstrip("/")


def checked_folder(table: IcebergTable, path: str) -> str:
    """A folder that somebody names, as its store spells it; BadInput unless it is an address of one."""
    if not (path.startswith("/") or re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", path)) or _GLOBS.search(path):
        raise BadInput(
            f"{path!r} is no folder that can be left alone: write its whole address, like /warehouse/db/t/data or "
            "s3://bucket/db/t/data"
        )
    return spelled_as_listed(table, path)


def is_inside(path: str, folder: str) -> bool:
    """Whether a folder is another one, or below it."""
    return f"{path}/".startswith(f"{folder}/")


class NeededFiles:
    """Everything that the snapshots and the metadata of a table refer to, as numbers that are held in Java."""

    def __init__(self, table: IcebergTable, locations: Sequence[str]) -> None:
        self._bridge = table.java
        self._java = instance_of(table.java, "Reachability")
        if _is_local(table):
            self._java.followLinks()
        self._java.watch(table.java.from_json(list(locations), "java.util.ArrayList"))
        self.locations = tuple(locations)
        self.add(table)

    def is_of(self, table: IcebergTable) -> bool:
        """Whether the Java that holds them is the table's."""
        return self._bridge.gateway is table.java.gateway

    @retry_reads
    def add(self, table: IcebergTable) -> None:
        """Add what the table refers to, as it was last read; what was added before stays."""
        self._java.addAll(table.table)
        history = read_history(table)
        for path in [*history.metadata_files, *(file.path for file in history.statistics)]:
            self._java.addPath(path)
        self._java.addPath(f"{str(table.table.location()).rstrip('/')}/metadata/{_VERSION_HINT}")
        self._java.sort()
        astray = self._java.astray()
        if astray is not None:
            raise BadInput(
                f"{astray} and a location of the table name the same folder on different stores, and cannot be "
                "compared: nothing is deleted"
            )

    def unneeded(self, files: Sequence[OrphanFile]) -> list[OrphanFile]:
        """Of some files, those that are not needed."""
        paths = self._bridge.from_json([file.path for file in files], "java.util.ArrayList")
        return [file for file, needed in zip(files, str(self._java.among(paths)), strict=True) if needed == "0"]

    @property
    def java(self) -> Any:
        """Java's own, for listings."""
        return self._java


class OrphanSearch:
    """A search for orphans below the locations of a table. It begins to list at once, while somebody works out what is
    needed; files that were listed before that is known wait. A context, which ends whatever is still under way."""

    def __init__(
        self,
        table: IcebergTable,
        locations: Sequence[str],
        *,
        before: int,
        excluded: Sequence[str],
        marks: Sequence[str],
    ) -> None:
        """Files count that were written before a moment, in milliseconds. `excluded` are folders that are left alone,
        and `marks` words in paths that protect a file."""
        self._table, self._locations, self._before = table, locations, before
        self._excluded = [f"{one.rstrip('/')}/" for one in excluded]
        self._marks = list(marks)
        self._begun: list[tuple[str, Any, str]] = []

    def __enter__(self) -> "OrphanSearch":
        try:
            self._begin()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @retry_reads
    def found(self, needed: NeededFiles) -> Listing:
        """The files that nobody needs. What is needed was worked out after the search had begun, or before."""
        try:
            if not self._begun:  # an earlier try broke off
                self._begin()
            return self._end(needed)
        finally:
            self._stop()

    def _begin(self) -> None:
        table, java = self._table, self._table.java
        for folder in self._locations:
            listing = instance_of(java, "FileListing")
            descriptor, path = tempfile.mkstemp(prefix="icepact-")
            os.close(descriptor)
            self._begun.append((folder, listing, path))
            listing.begin(
                table.table.io(),
                folder,
                folder.startswith("/") and _is_local(table),
                self._before,
                java.from_json(self._excluded, "java.util.ArrayList"),
                java.from_json(self._marks, "java.util.ArrayList"),
                _MOST_WAITING,
                path,
            )

    def _end(self, needed: NeededFiles) -> Listing:
        orphans, listed, young, marked = list[OrphanFile](), 0, 0, 0
        for folder, listing, path in self._begun:
            listing.end(needed.java)
            _refuse_odd(self._table, needed, listing, folder)
            with open(path, "rb") as stream:
                lines = stream.read().split(b"\0")[:-1]
            for line in lines:
                size, written, name = line.decode().split("\t", 2)
                orphans.append(OrphanFile(name, int(size), int(written)))
            listed, young, marked = listed + listing.listed(), young + listing.young(), marked + listing.marked()
        return Listing(sorted(orphans), listed, young, marked)

    def _stop(self) -> None:
        while self._begun:
            _, listing, path = self._begun.pop()
            listing.stop()
            os.unlink(path)


def _is_local(table: IcebergTable) -> bool:
    """Whether paths without a scheme are on this machine."""
    conf = table.session.sparkContext._jsc.hadoopConfiguration()
    return str(conf.get("fs.defaultFS") or "file:///").startswith("file:")


def _refuse_odd(table: IcebergTable, needed: NeededFiles, listing: Any, folder: str) -> None:
    """Raise BadInput if names of files cannot be compared with what the table says."""
    unreadable = listing.unreadable()
    if unreadable is not None:
        raise BadInput(f"{unreadable} has letters that cannot be compared: nothing is deleted; rename the file")
    encoding = str(table.java.jvm.java.lang.System.getProperty("sun.jnu.encoding"))
    if (
        folder.startswith("/")
        and encoding.upper() not in ("UTF-8", "UTF8")
        and (listing.hasOdd() or needed.java.hasOdd())
    ):
        raise BadInput(
            f"files below {folder} have names that this Java cannot compare (its encoding is {encoding}): nothing is "
            "deleted; set LC_ALL=C.UTF-8"
        )
