"""The session of one command: what the global options ask for, and what every command asks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from icepact.model.errors import BadInput

if TYPE_CHECKING:
    from icepact.app import Application
    from icepact.entrypoints.cli.render import Renderer
    from icepact.model.outcome import Outcome


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """What the global options ask for."""

    renderer: "Renderer"
    settings: Mapping[str, Any]
    """What `build_application` is given."""

    @property
    def where(self) -> list[str]:
        """The flags by which another command finds the same tables; a URI may hold a secret, and is left out."""
        flags = {"--catalog": "catalog", "--warehouse": "warehouse", "--config": "config", "--policy": "policies"}
        return [word for flag, name in flags.items() if self.settings[name] for word in (flag, self.settings[name])]

    @property
    def service_settings(self) -> dict[str, Any]:
        """What `build_service` is given."""
        return {name: value for name, value in self.settings.items() if name != "verbose"}

    def application(self, **more: Any) -> "Application":
        """The application for this command; `short=True` for commands that end before Java's compiler pays off."""
        from icepact.entrypoints.wiring import build_application

        return build_application(**{**self.settings, **more})


def one_table(argument: str | None, option: str | None) -> str:
    """The table that a command is about, given either way."""
    if argument and option and argument != option:
        raise BadInput(f"two tables are given: {argument} and {option}")
    if not (argument or option):
        raise BadInput("no table is given: write db.table")
    return argument or option or ""


def exit_with(outcome: "Outcome") -> None:
    """End with exit code 1 if a person should look at what became of it."""
    from icepact.model.status import NOT_WELL

    if outcome.status in NOT_WELL:
        raise typer.Exit(1)
