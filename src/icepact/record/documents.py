"""Values as stores keep them: JSON of their fields."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from icepact.model.run import Owner


def known(kind: type[Any], document: Mapping[str, Any]) -> Any:
    """A value from a document, without fields that a newer version may have added to it."""
    return kind(**{name: document[name] for name in kind.__slots__ if name in document})


def owner_document(owner: Owner | None) -> str | None:
    """An owner as a column has it."""
    return None if owner is None else json.dumps(asdict(owner))


def owner_of(document: str | None) -> Owner | None:
    """An owner from its column."""
    return known(Owner, json.loads(document)) if document else None
