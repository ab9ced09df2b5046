"""The folder into which the workers of a process write what they count."""

import os
import secrets
import shutil
from pathlib import Path
from tempfile import gettempdir
from types import TracebackType


class CounterFolder:
    """It has a name from the beginning, and is there inside the block."""

    def __init__(self) -> None:
        self.path = Path(gettempdir(), f"icepact-metrics-{os.getpid()}-{secrets.token_hex(8)}")

    def __enter__(self) -> Path:
        self.path.mkdir(mode=0o700)
        return self.path

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        del kind, error, at
        shutil.rmtree(self.path, ignore_errors=True)
