"""A finished unit on record, and recalled."""

import json
from types import SimpleNamespace
from typing import Any

from icepact.execute.checkpoint import recall, to_document
from icepact.execute.rewriters.base import UnitResult
from icepact.model.methods import Method
from icepact.model.rewrite import WrittenFile
from icepact.model.row_map import RowMap, RowRange

FILE = {
    **{"file-path": "f", "file-size-in-bytes": 9, "record-count": 7, "spec-id": 0},
    **{"file-format": "parquet", "partition": []},
}
STAGING: Any = SimpleNamespace(stored=lambda file: (WrittenFile.described(file), file))
MAP = RowMap(inputs=(10,), outputs=(7,), ranges=(RowRange(0, 0, 0, 0, 7),), dropped={0: b"three of them"})


def document_of(row_map: RowMap | None) -> dict[str, Any]:
    """As a store gives it back."""
    result = UnitResult(
        rows_observed=7,
        files=[WrittenFile.described(FILE)],
        documents=[FILE],
        method=Method.ASSEMBLE,
        row_map=row_map,
    )
    document: dict[str, Any] = json.loads(json.dumps(to_document(result)))
    return document


def recalled_map(document: dict[str, Any]) -> RowMap | None:
    result = recall(document, STAGING)
    assert result is not None
    return result.row_map


def test_the_row_map_is_recalled() -> None:
    assert recalled_map(document_of(MAP)) == MAP
    assert recalled_map(document_of(None)) is None


def test_a_unit_of_an_earlier_version_has_no_row_map() -> None:
    document = document_of(MAP)
    del document["row_map"]
    assert recalled_map(document) is None


def test_a_row_map_of_another_version_is_none() -> None:
    assert recalled_map({**document_of(MAP), "row_map": "bm90IG91cnM="}) is None
