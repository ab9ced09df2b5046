"""Processes as owners of runs: this one, and whether another one has ended."""

import os
import socket
from functools import cache
from pathlib import Path
from typing import NamedTuple

from icepact.model.run import Owner

_PROC = Path("/proc")


@cache
def _this_process(pid: int) -> Owner:
    stat = _proc_stat(_PROC / "self")
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        space = " ".join(os.readlink(kind) for kind in (_PROC / "self/ns/pid", *_PROC.glob("self/ns/time")))
    except OSError:
        boot = space = ""
    return Owner(host=socket.gethostname(), pid=pid, born=stat.born if stat else 0, boot=boot, space=space)


def this_process() -> Owner:
    """The process that asks."""
    return _this_process(os.getpid())


def is_gone(owner: Owner) -> bool:
    """True if a process certainly does not live any more, because the kernel under which it ran says so.

    Of a process under another kernel that cannot be said: a machine that was started again looks like another one
    that has its name, and even `/etc/machine-id` may have come with an image.
    """
    here = this_process()
    same = (owner.host, owner.boot, owner.space) == (here.host, here.boot, here.space)
    return bool(same and owner.boot and owner.space and has_ended(owner.pid, owner.born))


def has_ended(pid: int, born: int, proc: Path = _PROC) -> bool:
    """Whether the kernel itself says that a process of its own has ended.

    It says so when asked for a signal: it may refuse to send one to somebody else's process, but knows it. That
    `/proc` does not show a process is no proof: it may be mounted so that it hides what others run (`hidepid`), or be
    that of another container.
    """
    if pid <= 0:
        return False  # would mean many processes
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass
    stat = _proc_stat(proc / str(pid)) if _counts_as_we_do(proc) else None
    return stat is not None and (stat.ended or (born > 0 and stat.born != born))


def _counts_as_we_do(proc: Path) -> bool:
    """Whether a process has the same number in `/proc` as in the namespace of this one: then it has only one there."""
    try:
        lines = (proc / "self/status").read_text().splitlines()
    except OSError:
        return False
    return [line.split()[1:] for line in lines if line.startswith("NSpid:")] == [[str(os.getpid())]]


class _ProcStat(NamedTuple):
    """State of a process, from `/proc/<pid>/stat`."""

    born: int
    ended: bool
    """True if nobody has asked for its exit code yet: it does nothing any more."""


def _proc_stat(folder: Path) -> _ProcStat | None:
    """The state of a process; `None` if it is not there, or hidden."""
    try:
        state, *fields = (folder / "stat").read_text().rpartition(")")[2].split()
        threads, born = int(fields[16]), int(fields[18])
    except (OSError, ValueError, IndexError):
        return None
    return _ProcStat(born, ended=state in "ZX" and threads <= 1)  # its first thread may have ended before the others
