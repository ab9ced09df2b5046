"""A task's memory follows its limit, not the number of its inputs."""

from functools import cache

from bench.task_memory import MB, measure

SIZE = 60 * MB


@cache
def few() -> dict[str, int]:
    """What two inputs take, with the memory that tasks have by default."""
    return measure(2, SIZE)


def test_memory_does_not_grow_with_the_inputs() -> None:
    many = measure(6, SIZE)
    assert many["peak"] < 1.15 * few()["peak"]
    assert many["peak"] < 3 * many["row_group"] + 300 * MB


def test_a_lower_limit_is_kept_to() -> None:
    """Row groups that are too large to be decoded at once are read in slices."""
    narrow = measure(2, SIZE, memory=128 * 1024**2)
    assert narrow["peak"] < few()["peak"] - 100 * MB
