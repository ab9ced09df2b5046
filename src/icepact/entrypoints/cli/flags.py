"""Flags made from the options model, so that names and help exist once; and global options anywhere."""

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from icepact.model.errors import BadInput

GROUPS = {
    "Which files": (
        *("strategy", "tier", "time_column", "min_file_size", "min_input_files", "max_file_count_per_partition"),
        *("max_delete_ratio", "max_fragment_ratio", "where", "partition", "branch", "snapshot_id", "enabled"),
        "rewrite_all",
        "erase",
    ),
    "When they are due": (
        *("minor_trigger_files", "minor_trigger_interval", "full_trigger_interval", "closed_after"),
        *("scans_per_day", "horizon", "reader_parallelism"),
    ),
    "What they become": (
        *(
            "target_file_size",
            "max_file_size",
            "method",
            "deletes",
            "codec",
            "compression_level",
            "recode",
            "row_group_size",
        ),
        *("row_group_rows", "min_row_group_size", "min_page_rows"),
    ),
    "Budgets": ("max_files", "max_bytes", "max_cost", "max_duration", "max_cost_per_hour", "max_bytes_per_hour"),
    "How the work is done": (
        *("job_order", "max_group_size", "max_group_files", "batch_rows", "task_memory", "parallelism", "verify"),
        *("max_commits", "commit_when", "max_commit_wait", "may_be_rolled_back"),
    ),
}
"""Options that shape a plan, as help shows them."""
PLANNING = tuple(name for names in GROUPS.values() for name in names)
_GLOBAL_WITH_VALUE = (
    "--catalog",
    "--catalog-uri",
    "--catalog-type",
    "--catalog-property",
    "-c",
    "--warehouse",
    "--namespace",
    "--config",
    "--policy",
    "--server",
)
_GLOBAL_SWITCHES = ("--json", "--verbose", "-v", "--version")
GLOBAL_FLAGS = tuple(flag for flag in (*_GLOBAL_WITH_VALUE, *_GLOBAL_SWITCHES) if flag.startswith("--"))


_SWITCHES = frozenset({"enabled", "rewrite_all", "recode", "erase", "may_be_rolled_back"})


class WithOptions(TyperCommand):
    """A command with flags from the options model, which is loaded when they are asked for: a list of all commands
    does without it."""

    _complete = False

    def get_params(self, ctx: Any) -> list[Any]:
        """The command's own parameters, then a flag for each option that `with_options` named, then help."""
        if not self._complete:
            alone = typer.Typer(add_completion=False, rich_markup_mode=None)
            alone.command()(vars(self.callback)["flagged"]())
            whole = get_command(alone)
            self.params, self.callback, self._complete = whole.params, whole.callback, True
        return super().get_params(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments and own options first, then those of the model in groups."""
        shown: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], **{title: [] for title in GROUPS}}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            title = _TITLES.get(param.name or "", "Options") if param.param_type_name == "option" else "Arguments"
            if record is not None:
                shown[title].append(record)
        for title, records in shown.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


_TITLES = {name: title for title, names in GROUPS.items() for name in names}


def with_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command of class `WithOptions` a flag for each named option; they arrive as `Options` called `request`.

    They are checked here, so that bad input is refused before Spark is started.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def wrapper(*args: Any, **kwargs: Any) -> None:
            from icepact.policy.options import options

            given = {name: kwargs.pop(name) or None if name in _SWITCHES else kwargs.pop(name) for name in names}
            command(*args, request=options(given), **kwargs)

        own = [p for p in inspect.signature(command).parameters.values() if p.name != "request"]

        def flagged() -> Callable[..., None]:
            return _taking(wrapper, [*own, *map(_flag, names)])

        vars(wrapper)["flagged"] = flagged
        return _taking(wrapper, own)

    return decorate


def _taking(function: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> Callable[..., None]:
    """The same function, which says that it takes these parameters."""
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {p.name: p.annotation for p in parameters}
    return function


_METAVARS = {"bytes": "SIZE", "seconds": "TIME"}


def _flag(name: str) -> inspect.Parameter:
    from icepact.model.policy import OPTIONS
    from icepact.policy.options import choices

    switch = name in _SWITCHES
    words = [_spelled(name)] if switch else []
    option, known = OPTIONS[name], choices(name)
    values = f" One of {', '.join(known)}." if known else ""
    unit = _METAVARS.get(option.unit) if option.unit else None
    annotation: Any = Annotated[
        bool if switch else str | None,  # numbers and sizes are checked by the model, in its own words
        typer.Option(*words, help=f"{option.description}{values}", show_default=False, metavar=unit),
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
    "--older-than",
    "--retain-last",
    "--exclude",
    "--columns",
    "--stale-after",
    "--column",
    "--keep",
    "--level",
    "--pattern",
    "--zone",
    "--since",
    "--period",
    "--offset",
    "--max-delay",
    "--max-age",
    "--housekeeping",
    "--host",
    "--port",
    "--workers",
    "--metrics-port",
    *("--tables", "--in-catalog", "--jobs-at-once", "--bytes-per-hour", "--money-per-hour", "--description"),
    *("--tenant", "--role", "--name", "--expires", "--overlap", "--after", "--days"),
    *(_spelled(name) for name in PLANNING if name not in _SWITCHES),
}


def properties_of(words: Sequence[str]) -> dict[str, str]:
    """Properties of a catalog, as flags give them: `key=value`."""
    pairs = [word.partition("=") for word in words]
    if any(not key.strip() or not equals for key, equals, _ in pairs):  # not quoted: a part of it may be a secret
        raise BadInput("a property of the catalog is written -c key=value, as in -c s3.endpoint=https://s3.example")
    return {key.strip(): value for key, _, value in pairs}


def hoist(arguments: Sequence[str]) -> list[str]:
    """Move global options to the front, where the parser wants them, so that they may stand anywhere; and `run` to its
    `fleet`, whatever is between them."""
    front: list[str] = []
    rest: list[str] = []
    plain: list[int] = []
    """Where in `rest` the words are that are no options, nor values of some."""
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word == "--":
            rest += [word, *words]
            break
        switch = (rest[:1], word) == (["policy"], "--tables")  # which takes a value elsewhere
        takes_value = not switch and (word in _GLOBAL_WITH_VALUE or word in _WITH_VALUE)
        is_global = word in _GLOBAL_SWITCHES or word.split("=", 1)[0] in _GLOBAL_WITH_VALUE
        if not word.startswith("-"):
            plain.append(len(rest))
        (front if is_global else rest).extend([word, *(words[:1] if takes_value else [])])
        if takes_value:
            words = words[1:]
    if [rest[at] for at in plain[:2]] == ["fleet", "run"]:
        rest.insert(plain[0] + 1, rest.pop(plain[1]))
    return front + rest
