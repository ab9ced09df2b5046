"""A plan at a newer head: of which finished units use can be made, and as what they are judged."""

import base64
import zlib
from types import SimpleNamespace
from typing import Any

import pytest

from icepact.maintain.rebase import ReadInputs
from icepact.maintain.rounds import may_be_kept
from icepact.model.files import DeleteKind
from tests.support.states import data_file, delete_file, make_policy

POS = delete_file("pos.parquet", DeleteKind.POSITION)
VECTOR = delete_file("dv.puffin", DeleteKind.DV, offset=4, records=3)
KEYS = delete_file("eq.parquet", DeleteKind.EQUALITY)


def read(*paths: str) -> ReadInputs:
    """These files, and one delete for all of them."""
    return ReadInputs([data_file(path, 10, deletes=(0,)) for path in paths], [POS])


def test_what_was_read_survives_a_checkpoint() -> None:
    """What is judged and proven is the same, whatever applies to the files by now."""
    then = ReadInputs(
        [
            data_file("a", 10, deletes=(2, 0), first_row_id=7, sequence_number=3),
            data_file("b", 10, deletes=(2,), first_row_id=None, sequence_number=4),
        ],
        [VECTOR, POS, KEYS],
    )
    now = ReadInputs([file._replace(deletes=(0,), sequence_number=9) for file in then.files], [POS])
    recalled = ReadInputs.of_text(then.to_text(), now)
    assert recalled is not None
    assert recalled.at_pin == then.at_pin
    assert {(d.key, d.kind, d.records) for d in recalled.deletes} == {
        (d.key, d.kind, d.records) for d in (VECTOR, KEYS)
    }


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="of an earlier version"),
        pytest.param(base64.b64encode(b"?").decode(), id="damaged"),
        pytest.param(base64.b64encode(zlib.compress(b"{}")).decode(), id="of another form"),
        pytest.param(read("a").to_text(), id="of fewer files"),
        pytest.param(read("a", "c").to_text(), id="of other files"),
    ],
)
def test_what_another_version_or_unit_has_read_is_not_believed(text: str) -> None:
    assert ReadInputs.of_text(text, read("a", "b")) is None


def test_units_together_keep_their_deletes() -> None:
    """Each was read at its own time, with a list of deletes of its own."""
    one = ReadInputs([data_file("a", 10, deletes=(1,))], [POS, KEYS])
    other = ReadInputs([data_file("b", 10, deletes=(0, 1))], [KEYS, VECTOR])
    both = ReadInputs.together([one, other])
    assert both.at_pin == [*one.at_pin, *other.at_pin]
    assert [delete.key for delete in both.deletes] == [KEYS.key, VECTOR.key]


@pytest.mark.parametrize(
    ("step", "result", "verify", "kept"),
    [
        (SimpleNamespace(regroup=False), SimpleNamespace(row_map=object()), "footers", True),
        (SimpleNamespace(regroup=True), SimpleNamespace(row_map=object()), "footers", False),
        (SimpleNamespace(regroup=False), SimpleNamespace(row_map=None), "footers", False),
        (SimpleNamespace(regroup=False), SimpleNamespace(row_map=object()), "full", False),
    ],
)
def test_which_units_may_be_kept(step: Any, result: Any, verify: str, kept: bool) -> None:
    plan: Any = SimpleNamespace(policy=make_policy(verify=verify))
    assert may_be_kept(plan, step, result) is kept
