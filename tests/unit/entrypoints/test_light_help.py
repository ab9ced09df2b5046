"""Help does not load what only commands need: people wait for it."""

import subprocess
import sys

HEAVY = ("icepact.model.policy", "pydantic", "pyspark", "pyarrow", "numpy", "sqlalchemy", "rich", "yaml")


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from icepact.entrypoints.cli import main; sys.argv = ['icepact', '--help']\n"
        "main.run(['--help'])\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage: icepact" in done.stdout
    assert done.stderr.strip() == "[]"
