"""HTML and SVG from Python calls. Whatever is not markup already is escaped, so nothing can be forgotten."""

import html
import re

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]")
"""What no document may hold, and what turns the direction of the text around it."""


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Any value as text of a page."""
    return value if isinstance(value, Markup) else Markup(html.escape(_UNPRINTABLE.sub("\ufffd", str(value))))


def joined(*parts: object) -> Markup:
    """Parts one after the other; `None` is nothing."""
    return Markup("".join(text(part) for part in parts if part is not None))


def tag(name: str, /, *inside: object, **attributes: object) -> Markup:
    """An element. `class_` is the attribute class, `aria_label` is aria-label; `None` is no attribute."""
    start = name + "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(_plain(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{start}>{joined(*inside)}</{name}>" if inside or name in _NEVER_EMPTY else f"<{start}/>")


_NEVER_EMPTY = frozenset({"i", "div", "span", "td", "th", "p", "style", "title", "tbody"})
"""Elements that browsers want closed, even if nothing is in them."""


def _plain(value: object) -> object:
    """Coordinates with as many digits as can be seen."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
