"""Planning decisions as pairs that a person can read: `cases/x.yaml` is a table, `cases/x.txt` its plan in words.

After a change that is meant to change plans, write the expected texts anew and read the difference:

    ICEPACT_UPDATE_GOLDEN=1 .venv/bin/pytest tests/golden && git diff tests/golden
"""

import os
from pathlib import Path

import pytest

from tests.golden.description import read_case
from tests.support.planning import make_plan

CASES = Path(__file__).parent / "cases"
NAMES = sorted(path.stem for path in CASES.glob("*.yaml"))


@pytest.mark.parametrize("name", NAMES)
def test_plan(name: str) -> None:
    state, policy = read_case(CASES / f"{name}.yaml")
    explained = make_plan(state, policy).explain() + "\n"
    expected = CASES / f"{name}.txt"
    if os.environ.get("ICEPACT_UPDATE_GOLDEN"):
        expected.write_text(explained)
    assert explained == expected.read_text()


def test_every_case_has_its_plan_and_every_plan_its_case() -> None:
    assert sorted(path.stem for path in CASES.glob("*.txt")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_case_says_what_it_shows(name: str) -> None:
    assert (CASES / f"{name}.yaml").read_text().startswith("# ")
