"""What people ask for: stdout; and files, refused before the work begins if they cannot be written, and written whole
or not at all."""

import io
import os
import sys
from pathlib import Path

from icepact.model.errors import BadInput


def file_to_write(path: str | os.PathLike[str]) -> Path:
    """A path that can be written to; a file that is there already will be overwritten."""
    file = Path(path)
    if file.is_dir():
        raise BadInput(f"{str(path)!r} is a folder: name a file")
    if not file.parent.is_dir():
        raise BadInput(f"there is no folder {str(file.parent)!r} to write {file.name!r} into")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise BadInput(f"{str(path)!r} cannot be written: no permission")
    return file


def write_file(file: Path, content: str) -> None:
    """Write it, or say in one line why that was not possible; what was there before stays until all is written."""
    real = file.resolve()
    part = real.with_name(f"{real.name}.{os.urandom(4).hex()}.part")
    try:
        if (real.exists() and not real.is_file()) or not os.access(real.parent, os.W_OK):
            real.write_text(content, encoding="utf-8")  # a pipe or a terminal, or nothing may be put beside it
            return
        try:
            part.write_text(content, encoding="utf-8")
            part.replace(real)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(f"{str(file)!r} cannot be written: {error.strerror}") from None


class _Unread(io.TextIOWrapper):
    """Stdout that somebody may stop reading, as `head` does: the rest goes nowhere, and that is no error."""

    def write(self, text: str, /) -> int:
        """Write as ever while somebody reads; after that, nowhere."""
        try:
            return super().write(text)
        except BrokenPipeError:
            self._stop()
            return len(text)

    def flush(self) -> None:
        """Flush as ever while somebody reads; after that, nowhere."""
        try:
            super().flush()
        except BrokenPipeError:
            self._stop()

    def _stop(self) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())


def let_stdout_be_closed() -> None:
    """From now on it is no error if nobody reads stdout to its end; other pipes break as ever."""
    if sys.stdout is sys.__stdout__ and isinstance(sys.stdout, io.TextIOWrapper):
        encoding, errors, by_line = sys.stdout.encoding, sys.stdout.errors, sys.stdout.line_buffering
        sys.stdout = _Unread(sys.stdout.detach(), encoding, errors, line_buffering=by_line)
