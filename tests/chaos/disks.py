"""Disks that run full or become read-only during a run.

Where this process may mount, the disk is a small tmpfs of its own: full means full, and read-only is said by the
kernel. Elsewhere Spark's processes are forbidden to write files beyond a size, and folders lose their write bit.
"""

import os
import random
import resource
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from icepact.model.progress import UnitDone
from tests.chaos.faults import tried
from tests.chaos.judge import RECOVERIES, LocalFiles, judge, look, recover
from tests.chaos.kills import add_mess, drive, make_table
from tests.support.compactors import short_compactor
from tests.support.servers.trial import configuration

KIND = "disk"
WAYS = ("full", "read-only", "full, with its catalog and its records", "full, of Spark's scratch")
_SIZE = 96 * 1024**2
_SMALL = 4096
"""Bytes that a file may still have, where nothing can be mounted."""
_OPTIONS = {"target_file_size": "64KB", "min_row_group_size": "1KB", "max_commits": 2, "rewrite_all": True}
_STEPS = ("held", "staged", "written", "proven", "judged", "attempting")


class Disk:
    """A folder that can be filled up and write-protected."""

    def __init__(self, path: Path, *, mounted: bool) -> None:
        self.path = path
        self.mounted = mounted
        self._ballast = path / "ballast"

    def fill(self, leave: int) -> None:
        """Take all room but a rest."""
        if not self.mounted:
            _limit_files(leave or _SMALL)
            return
        stat = os.statvfs(self.path)
        room = stat.f_bavail * stat.f_frsize - leave
        if room > 0:
            with self._ballast.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, room)

    def protect(self) -> None:
        """Nobody writes any more. OSError if somebody is just writing."""
        if self.mounted:
            self._remount("ro")
        else:
            self._mode(0o555)

    def free(self) -> None:
        """As it was."""
        if self.mounted:
            self._remount("rw")
            self._ballast.unlink(missing_ok=True)
        else:
            self._mode(0o755)
            _limit_files(resource.RLIM_INFINITY)

    def _remount(self, mode: str) -> None:
        done = subprocess.run(["mount", "-o", f"remount,{mode}", str(self.path)], capture_output=True, text=True)
        if done.returncode:
            raise OSError(done.stderr.strip())

    def _mode(self, mode: int) -> None:
        for folder in [self.path, *(path for path in self.path.rglob("*") if path.is_dir())]:
            folder.chmod(mode)


def _limit_files(size: int) -> None:
    """How large files of this process's children may grow; this process itself keeps the records."""
    for child in psutil.Process().children(recursive=True):
        with suppress(OSError):
            _, hard = resource.prlimit(child.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (size if hard < 0 else min(size, hard), hard))


@contextmanager
def small_disk() -> Iterator[Disk]:
    """A disk of its own, or a folder where that is not possible."""
    with tempfile.TemporaryDirectory(prefix="icepact-disk-") as name:
        command = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", name]
        try:
            mounted = subprocess.run(command, capture_output=True).returncode == 0
        except FileNotFoundError:
            mounted = False
        disk = Disk(Path(name), mounted=mounted)
        try:
            yield disk
        finally:
            disk.free()
            if mounted:
                subprocess.run(["umount", "--lazy", name], check=True)


class At:
    """Does something once, when a run comes to a step for the n-th time; at the next step if it cannot be done then."""

    def __init__(self, step: str, act: Callable[[], object], *, number: int = 1) -> None:
        self.done = False
        self._step = step
        self._left = number
        self._act = act

    def advance(self, done: UnitDone) -> None:
        """Nothing to do."""

    def step(self, name: str) -> None:
        """Act, if it is time."""
        self._left -= name == self._step
        if self._left <= 0 and not self.done:
            with suppress(OSError):
                self._act()
                self.done = True


class DiskTrials:
    """Tables on a disk that fails; catalog and records are elsewhere, but for one way, which has its own disk.

    A disk cannot be made read-only while SQLite has a file on it open. Spark's scratch is on the third disk, if there
    is one and Spark is started here.
    """

    def __init__(self, folder: Path, disk: Disk, whole: Disk, scratch: Disk | None = None) -> None:
        self.disk = disk
        self._whole_disk = whole
        self._scratch = scratch
        catalog = {
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{folder / 'catalog.db'}",
            "warehouse": str(disk.path / "some"),
            "jdbc.schema-version": "V1",
        }
        conf = {"spark.local.dir": str(scratch.path)} if scratch else {}
        self._apart = short_compactor(config=configuration(folder, catalog, conf=conf))
        self._whole = short_compactor(warehouse=whole.path / "whole")

    def trial(self, number: int, *, seed: int, step: str | None = None) -> dict[str, Any]:
        """A run whose disk fails on the way; an entry for the ledger. With a step, it fails there, and altogether."""
        dice = random.Random(f"{seed}/{KIND}/{number}")
        way, version = WAYS[number % 4], 2 + number // 4 % 2
        compactor = self._whole if way == WAYS[2] else self._apart
        spark = compactor.spark
        spark.sql("CREATE NAMESPACE IF NOT EXISTS disks")
        table = f"disks.s{seed}n{number}"
        make_table(spark, table, version)
        add_mess(spark, table, 0, catalog=compactor.catalog.name)
        leave = 0 if step else dice.choice([0, 0, _SMALL, dice.randrange(200_000)])
        recovery = dice.choice(RECOVERIES)
        if way == WAYS[2]:
            told = self._driven(table, leave, recovery)
        else:
            disk = self._scratch if self._scratch and way == WAYS[3] else self.disk
            act = disk.protect if way == "read-only" else lambda: disk.fill(leave)
            at = At(step or dice.choice(_STEPS), act)
            more = {"method": "spark", "verify": "full"} if way == WAYS[3] else {}
            options = {**_OPTIONS, "progress": at, **more}
            told = tried(compactor, table, options, recovery, LocalFiles(), lambda: None, disk.free)
            told["hit"] = at.done
        spark.sql(f"DROP TABLE {table} PURGE")
        return {"kind": KIND, "seed": seed, "number": number, "faults": {way: 1}, "mounted": self.disk.mounted, **told}

    def _driven(self, table: str, leave: int, recovery: str) -> dict[str, Any]:
        """In a process of its own: it cannot give its lease back, and must be gone for others to know."""
        compactor, disk = self._whole, self._whole_disk
        before = look(compactor, compactor.spark, table)
        disk.fill(leave)
        try:
            driven = drive(disk.path / "whole", table, {})
        finally:
            disk.free()
        recover(compactor, table, recovery)
        verdict = judge(compactor, compactor.spark, table, before, LocalFiles(), failing=True)
        told = driven.told
        said = driven.err.strip().splitlines()[-1:]
        return {
            "status": told.get("status", "raised"),
            "error": str(told.get("error") or "".join(said))[:500] if driven.code or told.get("error") else "",
            "recovery": recovery,
            **asdict(verdict),
            "failed": "",
            "hit": disk.mounted,
            "clean": verdict.clean,
        }
