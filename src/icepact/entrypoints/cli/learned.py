"""`icepact plan --learned`: what earlier runs taught."""

from collections.abc import Mapping
from typing import Any

from icepact.entrypoints.cli.render import Renderer
from icepact.entrypoints.library import Compactor
from icepact.model.errors import BadInput


def show_learned(
    compactor: Compactor, renderer: Renderer, table: str, given: Mapping[str, Any], *, reset: bool
) -> None:
    """What strategy `auto` learned about a table; Spark is not started."""
    asked = sorted(name for name, value in given.items() if value is not None)
    if asked:
        raise BadInput(f"--learned takes no options of a plan: leave out --{asked[0].replace('_', '-')}")
    if reset:
        compactor.forget_lessons(table)
        renderer.said(f"what was learned about {table} is forgotten")
        return
    lessons = compactor.learned(table)
    if renderer.as_json:
        renderer.document({"table": table, **lessons.to_dict()})
    else:
        renderer.out.print(lessons.explain(), markup=False)
