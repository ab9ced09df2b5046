"""`icepact plan --learned`: what earlier runs taught."""

from collections.abc import Collection

from icepact.app import Application
from icepact.entrypoints.cli.render import Renderer
from icepact.model.errors import BadInput


def show_learned(
    application: Application, renderer: Renderer, table: str, given: Collection[str], *, reset: bool
) -> None:
    """What strategy `auto` learned about a table; Spark is not started. No option of a plan may be `given`."""
    asked = sorted(given)
    if asked:
        raise BadInput(f"--learned takes no options of a plan: leave out --{asked[0].replace('_', '-')}")
    if reset:
        application.forget_lessons(table)
        renderer.message(f"what was learned about {table} is forgotten")
        return
    lessons = application.learned(table)
    if renderer.as_json:
        renderer.document({"table": table, **lessons.to_dict()})
    else:
        renderer.out.print(lessons.explain(), markup=False)
