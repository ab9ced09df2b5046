"""Files that people ask for: refused before the work begins if they cannot be written; written whole or not at all."""

import os
import secrets
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
    part = real.with_name(f"{real.name}.{secrets.token_hex(4)}.part")
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
