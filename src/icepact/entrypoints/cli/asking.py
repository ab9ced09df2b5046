"""When a command asks before it changes something: one rule, which every help text that it concerns repeats."""

from typing import Annotated

import typer

REWRITES = "At a terminal it shows the plan and asks; --yes skips that. Without a terminal it goes ahead."
DELETES = "At a terminal it asks; --yes skips that. Without a terminal nothing is changed unless --yes is said."
TAKES_AWAY = "A plan that deletes is only shown there unless --yes is said."
MAINTAINS = "At a terminal it shows what is due and asks; --yes skips that. Without a terminal it goes by the policy."

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def ask(question: str = "Go ahead?") -> None:
    """Ask the person at the terminal; a no ends the command with exit code 1."""
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)
