"""The list of commands in groups, each with the global options named; and what was perhaps meant."""

from difflib import get_close_matches
from typing import Any

import typer
from typer.core import TyperGroup

from icepact.entrypoints.cli.flags import GLOBAL_FLAGS

_GROUPS = {
    "Look at tables": ("tables", "health", "plan", "fleet"),
    "Compact them": ("compact", "apply", "fleet run"),
    "Keep house": ("maintain", "expire", "orphans", "manifests", "ttl", "tags", "statistics"),
    "Runs": ("runs", "costs", "resume", "cancel", "cleanup", "verify", "rollback", "unblock"),
    "Serve": ("serve", "worker", "jobs", "schedule", "tenants", "keys", "audit", "openapi"),
    "Set up": ("policy", "store", "setup", "demo"),
}
_NOW_CALLED = {"run": "fleet run", "forgive": "unblock"}
"""What commands were called before."""
_GLOBALS = f"Global options, before or after the command: {', '.join(GLOBAL_FLAGS)}; see icepact --help."


class Commands(TyperGroup):
    """Commands whose help names the global options."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command, its epilog completed."""
        command = super().get_command(ctx, cmd_name)
        if command is not None and _GLOBALS not in (command.epilog or ""):
            command.epilog = "\n\n".join(part for part in (command.epilog, _GLOBALS) if part)
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """A command by its name, which may have two words, as `fleet run` has."""
        two = " ".join(args[:2])
        if two in self.commands:
            args = [two, *args[2:]]
        now = _NOW_CALLED.get(args[0])
        if now in self.commands:
            ctx.fail(f"No such command {args[0]!r}: it is icepact {now} now.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """In groups; those that are in none come last."""
        del ctx  # the same for everybody
        known = {name: command for name, command in self.commands.items() if not command.hidden}
        grouped = {title: [name for name in names if name in known] for title, names in _GROUPS.items()}
        listed = {name for names in grouped.values() for name in names}
        room = formatter.width - 6 - max(map(len, known))
        for title, names in {**grouped, "Commands": [name for name in known if name not in listed]}.items():
            if names:
                with formatter.section(title):
                    formatter.write_dl([(name, known[name].get_short_help_str(room)) for name in names])


def usage(error: typer.TyperException) -> str:
    """What is wrong with a command line, and what was perhaps meant."""
    name = getattr(error, "option_name", None)
    if name is None:
        flag = max(getattr(getattr(error, "param", None), "opts", None) or [""], key=len)
        return f"{flag}: {error}" if flag.startswith("--") and flag not in str(error) else str(error)
    near = get_close_matches(name, [*(getattr(error, "possibilities", None) or ()), *GLOBAL_FLAGS], n=1, cutoff=0.75)
    return f"{error}: did you mean {near[0]}?" if near else str(error)
