"""Files that a command is asked to write: refused before the work begins if they cannot be written."""

import os
from pathlib import Path

from icepact.model.errors import BadInput


def file_to_write(path: str) -> Path:
    """A path that can be written to; a file that is there already will be overwritten."""
    file = Path(path)
    if file.is_dir():
        raise BadInput(f"{path!r} is a folder: name a file")
    if not file.parent.is_dir():
        raise BadInput(f"there is no folder {str(file.parent)!r} to write {file.name!r} into")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise BadInput(f"{path!r} cannot be written: no permission")
    return file


def write_file(file: Path, content: str) -> None:
    """Write it, or say in one line why that was not possible."""
    try:
        file.write_text(content, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{str(file)!r} cannot be written: {error.strerror}") from None
