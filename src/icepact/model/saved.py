"""Plans as files: one readable document, to be reviewed and carried out later."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from icepact.model.errors import BadInput
from icepact.model.plan import Plan, RewriteFiles

KIND = "icepact-plan"
FORMAT = 1
"""Grows when a plan of before could be misread."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedPlan:
    """A plan with when and by which version it was made."""

    plan: Plan
    made_at: datetime
    icepact: str
    """The version that made it."""
    file: str = "the plan"
    """Where it is kept, for messages."""

    def __post_init__(self) -> None:
        if self.made_at.tzinfo is None:
            raise ValueError("made_at must carry its time zone")


@dataclass(frozen=True, kw_only=True, slots=True)
class DroppedGroup:
    """A group of a saved plan that is not carried out, and why."""

    step: RewriteFiles
    reason: str
    overtaken: bool
    """True if the table moved on under it; false if it may not be done now."""


def saved_text(saved: SavedPlan) -> str:
    """The document of a plan: what people look for comes first."""
    plan = saved.plan
    document = {
        "kind": KIND,
        "format": FORMAT,
        "icepact": saved.icepact,
        "table": plan.table,
        "uuid": plan.uuid,
        "made_at": saved.made_at.isoformat(),
        "explained": plan.explain().splitlines(),
        "plan": json.loads(plan.to_json()),
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def parse_saved(text: str, file: str) -> SavedPlan:
    """A plan from its document, or one line that says why it is none that can be carried out."""
    document = _document(text, file)
    written = document.get("format")
    if not isinstance(written, int) or isinstance(written, bool) or written < 1:
        raise BadInput(f"{file} is not a saved plan: it tells no format")
    version = str(document.get("icepact"))
    if written > FORMAT:
        raise BadInput(
            f"{file} was saved by icepact {version} in format {written}, and this one knows up to {FORMAT}: plan again"
        )
    try:
        plan = Plan.from_json(json.dumps(document.get("plan")).encode())
        made_at = datetime.fromisoformat(str(document.get("made_at")))
        saved = SavedPlan(plan=plan, made_at=made_at, icepact=version, file=file)
    except ValueError:
        raise BadInput(
            f"{file} is damaged, or was saved by another version of icepact ({version}): plan again"
        ) from None
    if (document.get("table"), document.get("uuid")) != (plan.table, plan.uuid):
        raise BadInput(f"{file} is damaged: it names another table than its plan: plan again")
    return saved


def _document(text: str, file: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise BadInput(f"{file} is not a saved plan: `icepact plan TABLE --out FILE` writes one")
    return document
