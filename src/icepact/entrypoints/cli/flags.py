"""Flags made from the options model, so that names and help exist once; and global options anywhere."""

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Annotated, Any

import typer

from icepact.model.policy import Options, options

PLANNING = (
    *("strategy", "tier", "time_column", "target_file_size", "min_file_size", "max_file_size", "min_input_files"),
    *("max_file_count_per_partition", "max_delete_ratio", "max_fragment_ratio", "max_group_size", "max_group_files"),
    *("minor_trigger_files", "minor_trigger_interval", "full_trigger_interval", "closed_after"),
    *("scans_per_day", "horizon", "reader_parallelism"),
    *("max_files", "max_bytes", "max_cost", "max_duration", "max_cost_per_hour", "max_bytes_per_hour", "job_order"),
    *("where", "partition", "branch", "snapshot_id", "enabled", "rewrite_all"),
    *("method", "codec", "compression_level", "recode", "row_group_size", "row_group_rows"),
    *("min_row_group_size", "min_page_rows", "batch_rows", "task_memory", "parallelism", "verify", "max_commits"),
)
_GLOBAL_WITH_VALUE = ("--catalog", "--catalog-uri", "--catalog-type", "--warehouse", "--config", "--policy")
_GLOBAL_SWITCHES = ("--json", "--verbose", "-v")


_SWITCHES = frozenset({"enabled", "rewrite_all", "recode"})


def with_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command a flag for each named option; they arrive checked, as one mapping called `given`.

    They are checked here, so that bad input is refused before Spark is started.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def wrapper(*args: Any, **kwargs: Any) -> None:
            given = {name: kwargs.pop(name) or None if name in _SWITCHES else kwargs.pop(name) for name in names}
            options(given)
            command(*args, given=given, **kwargs)

        own = [p for p in inspect.signature(command).parameters.values() if p.name != "given"]
        flags = [_flag(name) for name in names]
        wrapper.__signature__ = inspect.Signature([*own, *flags])  # type: ignore[attr-defined]
        wrapper.__annotations__ = {p.name: p.annotation for p in (*own, *flags)}
        return wrapper

    return decorate


def _flag(name: str) -> inspect.Parameter:
    switch = name in _SWITCHES
    words = [_spelled(name)] if switch else []
    annotation: Any = Annotated[
        bool if switch else str | None,  # numbers and sizes are checked by the model, in its own words
        typer.Option(*words, help=Options.model_fields[name].description, show_default=False),
    ]
    default = False if switch else None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _spelled(name: str) -> str:
    return "--" + name.replace("_", "-")


_WITH_VALUE = {
    "--table",
    "--limit",
    "--run",
    "--task-timeout",
    "--html",
    "--out",
    "--by",
    *(_spelled(name) for name in PLANNING if name not in _SWITCHES),
}


def hoist(arguments: Sequence[str]) -> list[str]:
    """Move global options to the front, where the parser wants them, so that they may stand anywhere."""
    front: list[str] = []
    rest: list[str] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word == "--":
            rest += [word, *words]
            break
        takes_value = word in _GLOBAL_WITH_VALUE or word in _WITH_VALUE
        is_global = word in _GLOBAL_SWITCHES or word.split("=", 1)[0] in _GLOBAL_WITH_VALUE
        (front if is_global else rest).extend([word, *(words[:1] if takes_value else [])])
        if takes_value:
            words = words[1:]
    return front + rest
