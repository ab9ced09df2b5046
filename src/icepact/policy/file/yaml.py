"""YAML and JSON whose every part knows its line, so that a message can name it.

What a file says is never repeated in a message: somebody may have put a secret where it does not belong.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from icepact.model.errors import BadInput
from icepact.policy.validation import show_path

_QUOTED = re.compile(r"(['\"]).*?\1")
"""What YAML quotes from the file in its messages: a password that starts with * or ! is taken for a name."""
_BEGUN = r"/\*(?:[^*]|\*(?!/))*"
_BLOCK = rf"{_BEGUN}\*/"
_JSON = re.compile(rf"(?:\s|//[^\n]*\n|{_BLOCK})*\{{")
_COMMENT = re.compile(rf'("(?:\\.|[^"\\\n])*")|(?<!:)//[^\n]*|{_BEGUN}(?:\*/|\Z)')
"""A string, which stays, or a comment, which may lack its end. What is behind a colon is a URL without quotes."""
_TIMES, _MORE = 10, 10_000
"""So many times as large, and so much more, a document may become when its aliases are written out."""
_TRUE_OR_FALSE = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")


class _Loader(yaml.SafeLoader):
    """As YAML 1.2 has it: `on` and `off` are words, since `off` is a value of options."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if tag != "tag:yaml.org,2002:bool"]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", _TRUE_OR_FALSE, list("tTfF"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One document of a file."""

    file: str
    """The file's name, as the user gave it."""
    value: Any
    node: yaml.Node

    def line(self, path: Sequence[str | int] = ()) -> int:
        """The line of a key, or of what comes nearest to it."""
        node, line = self.node, _line(self.node)
        for part in path:
            found = _step(node, part)
            if found is None:
                break
            line, node = found
        return line

    def at(self, path: Sequence[str | int] = ()) -> str:
        """File and line of a key, as `lake.yaml:12`."""
        return f"{self.file}:{self.line(path)}"

    def refusal(self, path: Sequence[str | int], message: str) -> BadInput:
        """One line that names the file, the line and the key."""
        key = show_path(path)
        return BadInput(f"{self.at(path)}: {key}: {message}" if key else f"{self.at(path)}: {message}")


def read_documents(text: str, file: str) -> list[Document]:
    """Every document of a text, or one line that says where it is broken."""
    if _JSON.match(text):
        text = _as_yaml(text)
    documents = []
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            assert node is not None  # it was checked
            _refuse_unfolding(node, file)
            _refuse_doubled(node, file)
            documents.append(Document(file=file, value=loader.construct_document(node), node=node))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = _QUOTED.sub("'...'", getattr(error, "problem", None) or "it is broken")
        raise BadInput(f"{file}:{mark.line + 1 if mark else 1}: this is not YAML: {problem}") from None
    except (ValueError, LookupError, AttributeError, RecursionError):  # as `!!bool perhaps`
        raise BadInput(f"{file}:1: this is not YAML that can be read") from None
    return documents


def _as_yaml(text: str) -> str:
    """JSON as YAML has it: without tabs and comments. Every line stays where it is."""
    return _COMMENT.sub(lambda match: match[1] or "\n" * match[0].count("\n"), text).replace("\t", " ")


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1


def _step(node: yaml.Node, part: str | int) -> tuple[int, yaml.Node] | None:
    """What is in a node by this key, with its line; `None` if there is none."""
    if isinstance(node, yaml.SequenceNode):  # which may be long
        index = int(part) if str(part).isdecimal() else -1
        return (_line(node.value[index]), node.value[index]) if 0 <= index < len(node.value) else None
    same = [step for step in _below(node) if str(step[0]) == str(part)]
    return same[-1][1:] if same else None  # what is merged in with << stands before


def _below(node: yaml.Node) -> Iterator[tuple[str | int, int, yaml.Node]]:
    """What is directly in a node: key, line of the key, and the node."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield (str(key.value) if isinstance(key, yaml.ScalarNode) else "", _line(key), value)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield index, _line(item), item


def _refuse_doubled(root: yaml.Node, file: str) -> None:
    """YAML takes the last of two equal keys silently."""
    seen: set[int] = set()
    left: list[tuple[tuple[str | int, ...], yaml.Node]] = [((), root)]
    while left:
        path, node = left.pop()
        if id(node) in seen:
            continue  # an alias
        seen.add(id(node))
        lines: dict[str | int, int] = {}
        for key, line, below in _below(node):
            if key in lines:
                raise BadInput(f"{file}:{line}: {show_path((*path, key))}: given twice, first in line {lines[key]}")
            lines[key] = line
            left.append(((*path, key), below))


def _refuse_unfolding(root: yaml.Node, file: str) -> None:
    """Aliases of aliases make without end of a few lines."""
    sizes: dict[int, float] = {}
    if _size(root, sizes) > _TIMES * len(sizes) + _MORE:
        raise BadInput(f"{file}:{_line(root)}: its aliases make it too large, or stand in themselves")


def _size(node: yaml.Node, sizes: dict[int, float]) -> float:
    """How many parts a node has when aliases are written out; infinite if it is in itself."""
    if id(node) not in sizes:
        sizes[id(node)] = float("inf")
        below = node.value if isinstance(node, yaml.CollectionNode) else ()
        parts = (part for one in below for part in (one if isinstance(one, tuple) else (one,)))
        sizes[id(node)] = 1 + sum(_size(part, sizes) for part in parts)
    return sizes[id(node)]
