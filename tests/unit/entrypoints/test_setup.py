"""What is prepared once, so that later starts are fast."""

import os
import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from icepact.entrypoints.cli.setup import keep_byte_code
from icepact.entrypoints.wiring import _APPLYING, _LOOKING, _load_beside


def test_byte_code_is_kept_even_where_starts_do_not_keep_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    for file in (inner.parent / "__init__.py", inner / "__init__.py", inner / "module.py", tmp_path / "needed.py"):
        file.write_text("import needed\n" if file.name == "module.py" else "")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    keep_byte_code("outer")
    assert all(Path(cache_from_source(str(file))).is_file() for file in (inner / "module.py", tmp_path / "needed.py"))
    assert os.environ["PYTHONDONTWRITEBYTECODE"] == "1"


def test_modules_are_loaded_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    _load_beside("beside", "nowhere.to.be.found").join()
    assert "beside" in sys.modules
    _load_beside(*_LOOKING, *_APPLYING).join()
    assert {*_LOOKING, *_APPLYING} <= sys.modules.keys()
