"""The figures in `docs/reliability.md`, from the ledger."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.chaos import answers, disks, faults, kills, ledger, orphans, search, services, soak, workers
from tests.chaos.ledger import Summary

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- ledger -->", "<!-- end of ledger -->"
_TITLES = {
    kills.KIND: "driver killed",
    soak.KIND: "soak with writers and other compactors",
    faults.STORAGE: "store that fails",
    faults.CATALOG: "catalog away during the commit",
    faults.DELAY: "store and catalog slow, by up to 5 s",
    answers.SQLITE: "answers lost: SQLite through JDBC",
    answers.POSTGRES: "answers lost: PostgreSQL through JDBC",
    answers.REST: "answers lost or false: REST",
    orphans.KIND: "finished files removed before their commit",
    disks.KIND: "disk full or read-only",
    services.KIND: "processes of a service killed",
    workers.WORKER: "Python workers killed",
    workers.EXECUTOR: "executors killed on a cluster",
}
_NONE = "Nothing has been run yet."
_EARLIER = "### Earlier trials\n\nUp to commit `e8f2a0c`, when trials did not name their commit yet."


def write_page(path: Path = ledger.LEDGER, page: Path = PAGE) -> None:
    """Put the ledger's figures between the marks."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page} lacks {BEGIN} or {END}")
    page.write_text(f"{before}{BEGIN}\n\n{as_markdown(ledger.entries(path))}\n\n{END}{after}")


def as_markdown(entries: Sequence[Mapping[str, Any]]) -> str:
    """The tables: of trials that name their commit, then of the others."""
    named = [entry for entry in entries if entry.get("commit")]
    earlier = [entry for entry in entries if not entry.get("commit")]
    parts = [*_figures(named), *([_EARLIER, *_figures(earlier)] if earlier else [])]
    return "\n\n".join(parts) or _NONE


def _figures(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    found = {summary.kind: summary for summary in ledger.summarise(entries)}
    summaries = [found[kind] for kind in _TITLES if kind in found]
    searched = [entry for entry in entries if entry["kind"] == search.KIND]
    parts = [_table(summaries), *_sentences(found, entries)] if summaries else []
    return [*parts, *([_of_the_search(searched)] if searched else [])]


def _table(summaries: Sequence[Summary]) -> str:
    names = ("rows compared", *ledger.COUNTED[1:])
    lines = [
        f"| tried | trials | hit | {' | '.join(names)} | unclean | seeds | commits |",
        f"|---|{'---:|' * (len(names) + 3)}---|---|",
    ]
    for s in summaries:
        counts = " | ".join(f"{s.counts[name]:,}" for name in ledger.COUNTED)
        seeds = ", ".join(map(str, s.seeds))
        commits = ", ".join(f"`{commit}`" for commit in s.commits)
        lines.append(f"| {_TITLES[s.kind]} | {s.trials:,} | {s.hit:,} | {counts} | {s.unclean} | {seeds} | {commits} |")
    totals = " | ".join(f"**{sum(s.counts[name] for s in summaries):,}**" for name in ledger.COUNTED)
    trials, hit, unclean = (sum(getattr(s, name) for s in summaries) for name in ("trials", "hit", "unclean"))
    lines.append(f"| **all** | **{trials:,}** | **{hit:,}** | {totals} | **{unclean}** | | |")
    return "\n".join(lines)


def _sentences(found: Mapping[str, Summary], entries: Sequence[Mapping[str, Any]]) -> list[str]:
    said = []
    if storage := found.get(faults.STORAGE):
        low, high = storage.interval
        injected: Counter[str] = Counter()
        for entry in entries:
            if entry["kind"] == faults.STORAGE:
                injected.update(entry["faults"])
        requests = sum(int(e["requests"]) for e in entries if e["kind"] == faults.STORAGE)
        listed = ", ".join(f"{name}: {count:,}" for name, count in injected.most_common())
        said.append(
            f"On the store that fails, {storage.committed} of {storage.trials} runs were committed without help: "
            f"{storage.committed / storage.trials:.1%}, with 95% confidence between {low:.1%} and {high:.1%}. "
            f"Of {requests:,} requests {injected.total():,} went wrong ({listed})."
        )
    ends = {kind: found[kind] for kind in _TITLES if kind in found and found[kind].statuses and kind != kills.KIND}
    if ends:
        lines = ["| how runs ended, before anybody helped | |", "|---|---|"]
        for kind, summary in ends.items():
            listed = ", ".join(f"{name} {count}" for name, count in Counter(summary.statuses).most_common())
            lines.append(f"| {_TITLES[kind]} | {listed} |")
        said.append("\n".join(lines))
    if soak.KIND in found:
        said.append(_of_the_soak([e for e in entries if e["kind"] == soak.KIND]))
    if services.KIND in found:
        said.append(_of_the_services([e for e in entries if e["kind"] == services.KIND]))
    if kills.KIND in found:
        said.append(_of_the_kills([e for e in entries if e["kind"] == kills.KIND and e["hit"]]))
    return said


def _of_the_soak(cycles: Sequence[Mapping[str, Any]]) -> str:
    sums: dict[str, Counter[str]] = {name: Counter() for name in ("writes", "refused", "runs", "others")}
    for cycle in cycles:
        for name, counter in sums.items():
            counter.update(cycle[name])
    lines = ["| in the soak | |", "|---|---|"]
    minutes = sum(float(c["seconds"]) for c in cycles) / 60
    lines.append(f"| length | {minutes:.0f} minutes, {len(cycles)} comparisons |")
    titles = {
        "writes": "commits of writers",
        "refused": "commits of writers that a compactor was faster than",
        "runs": "icepact's runs",
        "others": "other compactors",
    }
    for name, counter in sums.items():
        listed = ", ".join(f"{what} {count}" for what, count in counter.most_common())
        lines.append(f"| {titles[name]} | {listed or 'none'} |")
    return "\n".join(lines)


def _of_the_services(trials: Sequence[Mapping[str, Any]]) -> str:
    over = Counter(str(entry["store"]) for entry in trials)
    died = Counter(str(entry["store"]) for entry in trials if entry["how"].get("store"))
    stores = ", ".join(f"{name} {count}" for name, count in over.items())
    with_it = ", ".join(f"{name} {count}" for name, count in died.items()) or "none"
    jobs = sum(int(entry.get("jobs", 0)) for entry in trials)
    return (
        f"Processes of a service were killed over these stores: {stores}, while {jobs:,} jobs were submitted and "
        f"carried out. The store's own server died with them: {with_it}."
    )


def _of_the_kills(hits: Sequence[Mapping[str, Any]]) -> str:
    named = sum("step" in entry["how"] for entry in hits)
    whole = sum(bool(entry["how"].get("whole")) for entry in hits)
    recoveries = Counter(str(entry["recovery"]) for entry in hits)
    listed = " and ".join(f"{count} by {name}" for name, count in sorted(recoveries.items()))
    text = (
        f"Of {len(hits)} kills {named} came at named steps and {len(hits) - named} at random instants; {whole} took "
        f"Java along in the same instant. Recovered: {listed}."
    )
    orphans = sum(int(entry["orphans"] > 0) for entry in hits)
    if orphans:
        text += (
            f" The oldest of these trials did not judge manifests of commits that never landed, and after {orphans} of "
            "them there were some: the clean-up did not know them then, and removes them now."
        )
    return text


_SEARCHED = {
    "event": "what happened",
    "others": "what others did",
    "commit": "commits",
    "judged": "groups at the head",
    "killed at": "processes killed before a",
    "catalog": "examples in which a catalog compares",
    "run": "how runs ended",
}


def _of_the_search(pieces: Sequence[Mapping[str, Any]]) -> str:
    seen: Counter[str] = Counter()
    for piece in pieces:
        seen.update(piece["seen"])
    hours = sum(float(piece["seconds"]) for piece in pieces) / 3600
    harmful = sum(not piece["clean"] for piece in pieces)
    commits = ", ".join(f"`{commit}`" for commit in dict.fromkeys(piece.get("commit") for piece in pieces) if commit)
    lines = [
        "| in the search | |",
        "|---|---|",
        f"| length | {hours:.1f} hours, {seen['examples']:,} examples, {seen['checks']:,} times all was compared |",
        *([f"| code | {commits} |"] if commits else []),
        f"| examples that did harm | {harmful} |",
        f"| commits that landed | {seen['landed strictly']:,} strictly, {seen['landed late']:,} late |",
    ]
    for kind, title in _SEARCHED.items():
        found = Counter({what.removeprefix(f"{kind}: "): n for what, n in seen.items() if what.startswith(f"{kind}: ")})
        lines.append(f"| {title} | {'; '.join(f'{what}: {count:,}' for what, count in found.most_common())} |")
    return "\n".join(lines)
