"""Whether the keys that apply to a data file are looked up or joined."""

from icepact.model.files import DeleteFile, DeleteKind
from icepact.model.key_join import KeyJoin, KeyLookups, is_joined, lookup_bytes
from tests.support.states import data_file, delete_file

MEMORY = 112_000
"""Of which a half is for lookups: 1,000 keys of one column."""


def keys(name: str, records: int, size: int = 0, ids: tuple[int, ...] = (1,)) -> DeleteFile:
    return delete_file(name, DeleteKind.EQUALITY, records=records, size=size, equality_ids=ids)


def test_what_a_lookup_takes() -> None:
    """More for more columns, and for longer texts; nothing for positions."""
    assert lookup_bytes(keys("a", 1000)) == 56_000
    assert lookup_bytes(keys("a", 1000, ids=(1, 2))) == 80_000
    assert lookup_bytes(keys("a", 1000, size=500)) == 57_500
    assert lookup_bytes(delete_file("p", DeleteKind.POSITION, records=1000)) == 0


def test_all_that_apply_to_a_data_file_count() -> None:
    deletes = [keys("a", 600), keys("b", 400), delete_file("p", DeleteKind.POSITION, records=10**9)]
    assert not is_joined(deletes, MEMORY)
    assert is_joined([*deletes, keys("c", 1)], MEMORY)


def test_only_data_files_with_too_many_are_joined() -> None:
    deletes = [keys("a", 600), keys("b", 600), keys("c", 900)]
    files = [data_file("f", 10, deletes=(0,)), data_file("g", 10, deletes=(0, 1)), data_file("h", 10, deletes=(2,))]
    join = KeyLookups(deletes, MEMORY).join(files)
    assert join == KeyJoin(data_files=1, rows=files[1].rows, keys=1200, lookup_bytes=67_200, memory=56_000)
    assert str(join) == (
        "1,200 keys are joined with those of 1 data file by Spark: to look them up would take 65.6 KB of a task's "
        "memory, and 54.7 KB may be used for that"
    )
    assert KeyLookups(deletes, MEMORY).join([files[0], files[2]]) is None
    assert KeyLookups(deletes, MEMORY, only={0, 2}).join(files) is None
