"""Documents: values as JSON, the way `--json` prints and stores keep them; values from JSON; and the schemas of both.

A document has the fields of its value and the computed ones. Where it differs, the field says how: one that is `HIDDEN`
is left out, the fields of a `Flat` one stand among those around it, `key` gives it another name. Adapters are built
when they are needed: for large types that takes a while.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import (
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    TypeAdapter,
    WithJsonSchema,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from icepact.model.effort import Effort, Estimate

Value = TypeVar("Value")
_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}
"""By type."""


def _adapter(kind: Any) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def document_of(value: object) -> dict[str, Any]:
    """What `--json` prints of a value."""
    document: dict[str, Any] = _adapter(type(value)).dump_python(value, mode="json", by_alias=True)
    return document


def schema_of(kind: type) -> dict[str, Any]:
    """The JSON schema of the documents of a type."""
    return _adapter(kind).json_schema(mode="serialization")


def to_json(value: object) -> bytes:
    """All that is needed to have a value again, for `from_json`."""
    return _adapter(type(value)).dump_json(value, round_trip=True)


def from_json(kind: type[Value], document: str | bytes) -> Value:
    """A value from its document; ValueError if it is none of that type."""
    value: Value = _adapter(kind).validate_json(document)
    return value


# -- what fields say about documents --------------------------------------------------------------

HIDDEN = Field(exclude=True)
Moment = Annotated[
    datetime,
    PlainSerializer(datetime.isoformat, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]


def key(name: str) -> Any:
    """The name of a field in documents."""
    return Field(serialization_alias=name)


def digits(number: int) -> PlainSerializer:
    """After the point, in documents."""
    return PlainSerializer(lambda value: round(value, number), return_type=float)


class Flat:
    """Mark of a field of a `Document` whose own fields stand in the document around it. They keep their names if `keys`
    gives them no others; `{}` in those is the name of the marked field."""

    def __init__(self, **keys: str) -> None:
        self._keys = keys

    def key(self, name: str, own: str) -> str:
        """Of a field of the field of that name."""
        return self._keys.get(own, own).format(name)


FlatEffort = Annotated[Effort, Flat()]
FlatEstimate = Annotated[Estimate, Flat(likely="{}", low="{}_low", high="{}_high")]


class Document:
    """Base of values that have a document."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        hints = cls.__annotations__.items() if "__annotations__" in cls.__dict__ else ()
        marks = [(name, hint.__origin__, mark) for name, hint in hints for mark in getattr(hint, "__metadata__", ())]
        for name, hook in _hooks([each for each in marks if isinstance(each[2], Flat)]).items():
            setattr(cls, name, hook)

    def to_dict(self) -> dict[str, Any]:
        """The document, as `--json` prints it."""
        return document_of(self)


def _hooks(marks: Sequence[tuple[str, type, Flat]]) -> Mapping[str, Any]:
    """By which pydantic reads and writes marked fields flat, and describes them so."""

    @cache
    def keys() -> Mapping[str, Mapping[str, tuple[str, JsonSchemaValue]]]:
        """Of each marked field: its own keys, with those in the document around it and their schemas."""
        return {
            name: {own: (mark.key(name, own), part) for own, part in schema_of(kind)["properties"].items()}
            for name, kind, mark in marks
        }

    def fold(document: Any) -> Any:
        if not isinstance(document, dict):
            return document
        rest = dict(document)
        parts = {
            name: {own: rest.pop(around) for own, (around, _) in inner.items() if around in rest}
            for name, inner in keys().items()
        }
        return rest | parts

    def unfold(document: dict[str, Any]) -> dict[str, Any]:
        parts = {name: document.pop(name) for name in keys()}
        for name, part in parts.items():
            document |= {keys()[name][own][0]: value for own, value in part.items()}
        return document

    def describe(schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        described = handler(schema)
        around = handler.resolve_ref_schema(described)
        kept = {name: part for name, part in around["properties"].items() if name not in keys()}
        around["properties"] = kept | {name: part for inner in keys().values() for name, part in inner.values()}
        around["required"] = [name for name in around.get("required", ()) if name in kept]
        return described

    if not marks:
        return {}
    return {
        "_fold": model_validator(mode="before")(fold),
        "_unfold": model_serializer(mode="wrap")(lambda self, dump: unfold(dump(self))),
        "__get_pydantic_json_schema__": describe,
    }
