"""What is wrong with a value, and what would be right: pydantic's findings in words for people who never met it.

What was given is never repeated: somebody may have put a secret where it does not belong.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

UNKNOWN = "unknown_key"
"""Type of the error about a key that there is not; its context names the `key`."""
CONFLICT = "conflict"
"""Type of the error about two keys that contradict each other; its context names one as `key`."""
_MAPPING = "a mapping is wanted, as in `key: value`"
_LIST = "a list is wanted"
_WANTED: Mapping[str, str] = {
    **dict.fromkeys(("int_parsing", "int_parsing_size", "int_type", "int_from_float"), "a whole number is wanted"),
    **dict.fromkeys(("float_parsing", "float_type"), "a number is wanted"),
    "finite_number": "a finite number is wanted",
    **dict.fromkeys(("bool_parsing", "bool_type"), "true or false is wanted"),
    **dict.fromkeys(("string_type", "path_type", "string_unicode"), "a text is wanted"),
    **dict.fromkeys(
        (
            "datetime_type",
            "datetime_parsing",
            "datetime_from_date_parsing",
            "datetime_object_invalid",
            "timezone_aware",
        ),
        "a date and a time with a zone are wanted, as in 2030-01-31T08:00:00Z",
    ),
    "string_too_short": "it must not be empty",
    "string_too_long": "it must have at most {max_length} characters",
    "missing": "this is missing",
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "model_attributes_type"), _MAPPING),
    **dict.fromkeys(("list_type", "tuple_type", "iterable_type", "is_instance_of"), _LIST),
    "greater_than": "it must be above {gt:g}",
    "greater_than_equal": "it must be at least {ge:g}",
    "less_than": "it must be below {lt:g}",
    "less_than_equal": "it must be at most {le:g}",
}


def complaint(error: ErrorDetails) -> str:
    """One error in one line, without the key that it is about."""
    kind = error["type"]
    if kind in {"enum", "literal_error"}:
        words = error["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
        return f"unknown {error['loc'][-1]}; there is: {words}"
    if kind in _WANTED:
        return _WANTED[kind].format(**error.get("ctx", {}))
    return error["msg"].removeprefix("Value error, ")


def path_of_error(error: ErrorDetails) -> tuple[int | str, ...]:
    """The keys that lead to what is wrong, from the outermost on."""
    more = (str(error["ctx"]["key"]),) if error["type"] in {UNKNOWN, CONFLICT} else ()
    return (*error["loc"], *more)


def show_path(path: Sequence[str | int]) -> str:
    """A key for people: `rules[1].options.max_files`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


class StrictModel(BaseModel):
    """A mapping of which every key is known."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, arbitrary_types_allowed=True)
    noun: ClassVar[str] = "key"
    """What its keys are called."""

    @model_validator(mode="before")
    @classmethod
    def _known(cls, data: Any) -> Any:
        if isinstance(data, dict):
            refuse_unknown(data, list(cls.model_fields), cls.noun)
        return data


def refuse_unknown(data: Mapping[Any, Any], names: Sequence[str], noun: str = "key") -> None:
    """Refuse the first key that is none of these names, and say which was perhaps meant."""
    unknown = [key for key in data if key not in names]
    if unknown:
        message = f"unknown {noun}; {guess(str(unknown[0]), names)}there is: {', '.join(names)}"
        raise PydanticCustomError(UNKNOWN, "{message}", {"key": unknown[0], "message": message})


def guess(word: str, names: Sequence[str]) -> str:
    """`did you mean max_files? `, or nothing if no name is like the word."""
    longer = [name for name in names if len(word) > 2 and name.startswith(word)]
    near = get_close_matches(word, names, n=1, cutoff=0.7) or longer
    return f"did you mean {near[0]}? " if near else ""
