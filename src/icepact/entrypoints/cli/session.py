"""The session of one command: what the global options ask for, and what every command asks."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from icepact.model.errors import BadInput

if TYPE_CHECKING:
    from icepact.app import Application
    from icepact.client import Client
    from icepact.entrypoints.cli.remote import RemoteApplication
    from icepact.entrypoints.cli.render import Renderer
    from icepact.model.outcome import Outcome

SERVER_VARIABLE, KEY_VARIABLE = "ICEPACT_SERVER", "ICEPACT_API_KEY"


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """What the global options ask for."""

    renderer: "Renderer"
    settings: Mapping[str, Any]
    """What `build_application` is given."""
    server: str | None = None
    """The address of a service that is to be asked; `None` if the work is done here."""

    @property
    def where(self) -> list[str]:
        """The flags by which another command finds the same tables; a URI may hold a secret, and is left out."""
        flags = {"--catalog": "catalog", "--warehouse": "warehouse", "--config": "config", "--policy": "policies"}
        return [word for flag, name in flags.items() if self.settings[name] for word in (flag, self.settings[name])]

    @property
    def service_settings(self) -> dict[str, Any]:
        """What `build_service` is given."""
        return {name: value for name, value in self.settings.items() if name != "verbose"}

    def application(self, **more: Any) -> "Application | RemoteApplication":
        """The application for this command, or the service that stands for it; `short=True` for commands that end
        before Java's compiler pays off."""
        return self.here(**more) if self.server is None else self.remote()

    def local(self, command: str, **more: Any) -> "Application":
        """The application for a command that makes no sense elsewhere."""
        self.refuse_server(command)
        return self.here(**more)

    def refuse_server(self, command: str) -> None:
        """Refuse a service for a command that makes no sense elsewhere."""
        if self.server is not None:
            raise BadInput(f"icepact {command} works where the catalog is, not through a service: leave out --server")

    def here(self, **more: Any) -> "Application":
        """The application in this process, whatever service was named."""
        from icepact.entrypoints.wiring import build_application

        return build_application(**{**self.settings, **more})

    def client(self) -> "Client":
        """The service that was named, with the key from the environment."""
        from icepact.client import Client
        from icepact.entrypoints.cli.remote import refuse_local

        refuse_local(self.settings)
        return Client(self.server or "", os.environ.get(KEY_VARIABLE))

    def remote(self) -> "RemoteApplication":
        """The use cases of the service that was named."""
        from icepact.entrypoints.cli.remote import RemoteApplication

        return RemoteApplication(self.client(), self.renderer.note)


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
