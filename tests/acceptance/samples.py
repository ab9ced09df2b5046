"""Samples of output in the pages: compared with what the examples print, and written anew by `make samples`.

What differs from run to run is not compared: ids, seconds, sizes, money, and how wide a column is.
"""

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.acceptance.pages import ROOT, Ran, play

ANY = "..."
"""A line that stands for any lines."""
_SAMPLE = re.compile(
    r"^<!-- (?P<mark>runs|prints) -->\n```\w+\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_VOLATILE = (
    (re.compile(r"\b\d{14}-[0-9a-f]{8}\b"), "RUN"),
    (re.compile(r"\b\d{17,20}\b"), "SNAPSHOT"),
    (re.compile(r"\b(?:below )?\d[\d.,]* ?(?:USD|\$)|\$ ?\d[\d.,]*"), "MONEY"),
    (re.compile(r"\b(?:below )?\d[\d.,]* ?(?:ms|s|min|h)\b"), "TIME"),
    (re.compile(r"\b\d[\d.,]* ?[kKMG]?B\b"), "SIZE"),
    (re.compile(r"/\S*/icepact-warehouse"), "WAREHOUSE"),
    (re.compile(r"\s+"), " "),
)


class Sample(NamedTuple):
    """A sample, and what should stand there."""

    page: str
    line: int
    shown: str
    printed: str

    @property
    def true(self) -> bool:
        """Whether it shows what is printed, but for what differs from run to run."""
        return _matches([*_plain(self.shown)], [*_plain(self.printed)])


def samples(ran: list[Ran]) -> Iterator[Sample]:
    """All samples of the pages, with what the examples printed."""
    for page in dict.fromkeys(each.page for each in ran):
        played = iter([each for each in ran if each.page == page])
        parts: list[list[str]] = []
        text = (ROOT / page).read_text()
        for match in _SAMPLE.finditer(text):
            if match["mark"] == "runs":
                parts += next(played).parts
            else:
                shown, line = match["text"], text[: match.start()].count("\n") + 3
                yield Sample(page, line, shown, _printed(shown, parts))


def _printed(shown: str, parts: list[list[str]]) -> str:
    """What the commands of a sample printed, or the last example if it names none."""
    commands = [line[2:] for line in shown.splitlines() if line.startswith("$ ")]
    if not commands:
        return parts[-1][1]
    outputs = {line.split("  #")[0].strip(): out for line, out in parts}
    return "".join(f"$ {command}\n{outputs[command].strip()}\n" for command in commands)


def _plain(text: str) -> Iterator[str]:
    for line in text.strip().splitlines():
        for volatile, name in _VOLATILE:
            line = volatile.sub(name, line)
        yield line.strip()


def _matches(shown: list[str], printed: list[str]) -> bool:
    if not shown:
        return not printed
    if shown[0] == ANY:
        return any(_matches(shown[1:], printed[n:]) for n in range(len(printed) + 1))
    return bool(printed) and shown[0] == printed[0] and _matches(shown[1:], printed[1:])


def mended(sample: Sample) -> str:
    """The sample as it should be. What stands between lines `...` is found by its first words, as many lines of it;
    what stands after the last of them goes to the end."""
    lines = [line.rstrip() for line in sample.printed.strip().splitlines()]
    if ANY not in sample.shown.splitlines():
        return "\n".join(lines) + "\n"
    told: list[str] = []
    at = 0
    chunks = [chunk.splitlines() for chunk in re.split(r"^\.\.\.\n", sample.shown, flags=re.MULTILINE)]
    for number, shown in enumerate(chunks):
        if shown:
            at = next((n for n in range(at, len(lines)) if _word(lines[n]) == _word(shown[0])), len(lines))
            end = len(lines) if number + 1 == len(chunks) else at + len(shown)
            told += lines[at:end]
            at = end
        told.append(ANY)
    return "\n".join(told[:-1]) + "\n"


def _word(line: str) -> str:
    return " ".join(line.split()[:2])


def main() -> None:
    """Write the samples that are not true any more; look at them before you commit."""
    with tempfile.TemporaryDirectory() as folder:
        found = [sample for sample in samples(play(Path(folder)).ran) if not sample.true]
    for sample in found:
        page = ROOT / sample.page
        page.write_text(page.read_text().replace(f"```text\n{sample.shown}```", f"```text\n{mended(sample)}```", 1))
        print(f"{sample.page}:{sample.line} written anew")
    sys.exit(0)


if __name__ == "__main__":
    main()
