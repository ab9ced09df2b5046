"""A search for an order of events in which a row is lost, doubled or brought back, or a live file is deleted.

What decides is icepact's own code; see `tests.support.protocol_world` for all around it.

What is taken for granted: a request to the catalog arrives within `COMMIT_WINDOW` after its attempt was recorded if
nobody waits for it any more; a task that stood still for `TASK_TIMEOUT` writes nothing; a process that stood still for
so long looks at its lease before it does anything else; nobody moves the head back while a commit that was validated
already is under way for longer than `COMMIT_WINDOW`; orphans that are younger than a day are not removed while one is
under way.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from tests.support.model_iceberg import DAYS, EVERYWHERE, Compares, Place, Violation
from tests.support.protocol_world import HOSTS, SEEN, STAGE, Agent, Deaf, Luck, World, new_record_stores

DAY1, DAY2 = DAYS
STEPS = 60
"""Events of one example."""
STORES_LAST = 50
"""Examples."""
MOST = 4
"""Processes at a time."""
Change = Callable[[World, Place, int], object]


def _day(place: Place) -> Place:
    return place if place in DAYS else DAY1


def _convert(world: World, n: int) -> None:
    if equality := sorted(d.path for d in world.others.head.deletes.values() if d.key is not None):
        world.others.convert(equality[n % len(equality)])


def _compact(world: World, path: str, n: int) -> None:
    """Another compactor begins."""
    files = world.others.head.files
    same = [f.path for f in files.values() if f.place == files[path].place and f.path != path]
    world.others.begin_compaction(path, *same[: n % 2])


def _compacted(world: World, *, keep_number: bool) -> None:
    SEEN["compacted elsewhere"] += world.others.end_compaction(keep_number=keep_number)


def _remove_orphans(world: World, n: int) -> None:
    floor = timedelta(hours=(0, 1, 24, 72)[n % 4])
    if not world.overdue if floor >= timedelta(days=1) else not world.committing:
        world.catalog.remove_orphans(floor)


def _of_a_file(change: Callable[[World, str, int], object]) -> Change:
    def changes(world: World, place: Place, n: int) -> None:
        if files := sorted(world.others.head.files):
            change(world, files[n % len(files)], n)

    return changes


def _of_the_head(change: Callable[[World, int], object]) -> Change:
    def changes(world: World, place: Place, n: int) -> None:
        if not world.overdue:
            change(world, n)

    return changes


CHANGES: dict[str, Change] = {
    "append": lambda world, place, n: world.others.append(_day(place), n % 3),
    "delete by key": lambda world, place, n: world.others.delete_equal(place, n % 3),
    "delete by a key of an old schema": lambda world, place, n: world.others.delete_equal(place, n % 3, old=True),
    "upsert": lambda world, place, n: world.others.delete_equal(place, n % 3, insert=True),
    "upsert of a new key": lambda world, place, n: world.others.upsert_growing(place),
    "delete by position": _of_a_file(lambda world, path, n: world.others.delete_row(path, n)),
    "delete by positions in several files": _of_a_file(
        lambda world, path, n: world.others.delete_row(path, n, shared=True)
    ),
    "overwrite": _of_a_file(lambda world, path, n: world.others.overwrite(path)),
    "delete a file": _of_a_file(lambda world, path, n: world.others.drop(path)),
    "convert a delete": lambda world, place, n: _convert(world, n),
    "another compactor begins": _of_a_file(_compact),
    "another compactor commits": lambda world, place, n: _compacted(world, keep_number=True),
    "another compactor commits with a new number": lambda world, place, n: _compacted(world, keep_number=False),
    "expire": lambda world, place, n: world.catalog.expire(1 + n % 3, aside=n > 3),
    "expire all but the head": lambda world, place, n: world.catalog.expire(1),
    "remove orphans": lambda world, place, n: _remove_orphans(world, n),
    "roll back": _of_the_head(lambda world, n: world.others.point_to(n, ancestors=True)),
    "set the current snapshot": _of_the_head(lambda world, n: world.others.point_to(n, ancestors=False)),
    "cherry-pick": _of_the_head(lambda world, n: world.others.pick(n)),
    "stage for audit": lambda world, place, n: world.others.stage(_day(place), n % 3),
    "begin a branch or append to it": lambda world, place, n: world.others.branch(_day(place), n % 3),
    "publish the branch": _of_the_head(lambda world, n: world.others.publish()),
    "upgrade": lambda world, place, n: world.catalog.upgrade(),
    "drop the key column": lambda world, place, n: world.catalog.drop_column(),
    "add a key column": lambda world, place, n: world.catalog.add_column(),
}
"""What others do to the table."""
THEMES: Sequence[Sequence[str]] = (
    ("append", "delete by key", "roll back", "set the current snapshot", "cherry-pick"),
    ("append", "upgrade", "roll back", "cherry-pick", "delete by position"),
    ("append", "delete by key", "delete by a key of an old schema", "drop the key column", "add a key column"),
    ("append", "delete by key", "expire all but the head", "overwrite"),
    ("append", "remove orphans", "expire", "stage for audit", "cherry-pick"),
    ("append", "delete by key", "another compactor begins", "another compactor commits", "convert a delete"),
)
"""Things that have to do with each other."""


class Event(NamedTuple):
    """Something that can happen: a method of the search, and what it is given."""

    name: str
    given: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in self.given.items())})"


Dice = random.Random
Choices = Mapping[str, Callable[[Dice], Any]]


def _one_of(*values: Any) -> Callable[[Dice], Any]:
    return lambda dice: dice.choice(values)


N, YES_OR_NO = _one_of(*range(8)), _one_of(True, False)
UNTIL = _one_of(
    *("end", "end", "end", "send", "send", "any", "write", "refresh", "move", "take", "delete", "finish"),
    *("swap", "swap", "again"),
)
WHERE: Choices = {"host": _one_of(*HOSTS), "store": _one_of(0, 0, 1), "until": UNTIL}
EVENTS: dict[str, tuple[int, Choices]] = {
    "wait": (3, {"minutes": _one_of(1, 3, 20, 40, 90, 1500), "heard": YES_OR_NO}),
    "change": (20, {"how": N, "place": _one_of(*DAYS, EVERYWHERE), "n": N}),
    "start": (
        5,
        {
            "labels": lambda dice: dice.choice([[1], [1, 2], dice.choices([0, 1, 1, 2], k=dice.randint(3, 6))]),
            "commits": _one_of(1, 2),
            "split": YES_OR_NO,
            **WHERE,
            "until": _one_of("write", "write", "write", "refresh", "move", "send", "swap", "any", "end"),
        },
    ),
    "go": (
        12,
        {
            **{"n": N, "until": UNTIL, "luck": _one_of(*Luck), "look": YES_OR_NO},
            **{"blind": _one_of(*[0] * 9, 1, 2, 3, 8), "deaf": _one_of(*[0] * 9, 1, 1, 2, 8)},
            **{"deaf_after": N, "heard": YES_OR_NO},
        },
    ),
    "resume": (3, {"n": N, **WHERE}),
    "clean_up": (3, WHERE),
    "kill": (2, {"n": N}),
    "deliver": (3, {"n": N}),
    "write_late": (1, {}),
    "take_back": (1, {"store": _one_of(0, 1)}),
    "cancel": (1, {"n": N}),
}
"""How often, and what with."""


class Example(NamedTuple):
    """One order of events; any part of it is one, too."""

    old: bool
    """Whether there is a file of the old spec."""
    compares: Compares
    carries: bool
    """Whether runs copy deleted rows, with their deletes."""
    kinds: Sequence[str]
    """What others do: only a few kinds of things, and those more often."""
    events: Sequence[Event]

    @staticmethod
    def of(number: int) -> "Example":
        """The same for the same number. Few kinds of things happen in one example, and some of them often: what hurts
        needs some things several times rather than everything once."""
        dice = Dice(number)
        names = list(EVENTS)
        weights = [weight * dice.choice([0.3, 1, 3]) for weight, _ in EVENTS.values()]
        lucks = _one_of(Luck.GOOD, *dice.sample(list(Luck), dice.randint(1, 4)))
        return Example(
            old=dice.random() < 0.5,
            compares=dice.choice(list(Compares)),
            carries=Dice(-number - 1).random() < 0.5,  # by itself: all else is as it ever was
            kinds=_kinds(dice),
            events=[
                Event(name, {key: choose(dice) for key, choose in {**EVENTS[name][1], **_with(name, lucks)}.items()})
                for name in dice.choices(names, weights, k=STEPS)
            ],
        )

    def __str__(self) -> str:
        first = (
            f"old={self.old}, compares={self.compares.value}, carries={self.carries}, others: {', '.join(self.kinds)}"
        )
        return "\n".join([first, *map(str, self.events)])


def _kinds(dice: Dice) -> Sequence[str]:
    """Some of one theme, or anything; the fewer they are, the more often each."""
    some = dice.choice(THEMES) if dice.random() < 0.5 else list(CHANGES)
    return dice.sample(some, dice.randint(2, min(5, len(some))))


def _with(name: str, lucks: Callable[[Dice], Any]) -> Choices:
    return {"luck": lucks} if name == "go" else {}


class Played:
    """One example, from its beginning to its end."""

    def __init__(self, example: Example) -> None:
        self.world = World(example.compares)
        self.world.carries = example.carries
        self.others = self.world.others
        self.kinds = example.kinds
        try:
            self._play(example)
        finally:
            self.world.close()

    def _play(self, example: Example) -> None:
        self.others.append(DAY1, 0, 1)
        self.others.append(DAY1, 1, 2)
        self.others.append(DAY2, 0, 1)
        if example.old:
            self.others.append(EVERYWHERE, 0, 1)
        SEEN.update(["examples", f"catalog: {example.compares}"])
        for event in example.events:
            SEEN[f"event: {event.name.replace('_', ' ')}"] += 1
            getattr(self, event.name)(**event.given)
            self.world.check()
        self.world.end()

    # -- others -----------------------------------------------------------------------------------

    def change(self, how: int, place: Place, n: int) -> None:
        kind = self.kinds[how % len(self.kinds)]
        CHANGES[kind](self.world, place, n)
        SEEN[f"others: {kind}"] += 1

    # -- icepact ----------------------------------------------------------------------------------

    @property
    def alive(self) -> list[Agent]:
        return [agent for agent in self.world.agents if not agent.ended]

    def start(self, labels: list[int], host: str, store: int, commits: int, split: bool, until: str) -> None:
        """A file with label 0 is left alone; those with another one are in one group for each partition."""
        groups: dict[tuple[Place, int], list[str]] = {}
        for n, (path, file) in enumerate(sorted(self.others.head.files.items())):
            if label := labels[n % len(labels)]:
                groups.setdefault((file.place, label), []).append(path)
        if groups and len(self.alive) < MOST:
            self._unblock()
            agent = self.world.start(*groups.values(), host=host, store=store, commits=commits, split=split)
            self.world.go(agent, until)

    def go(
        self, n: int, until: str, luck: Luck, look: bool, blind: int, deaf: int, deaf_after: int, heard: bool
    ) -> None:
        if self.alive:
            agent = self.alive[n % len(self.alive)]
            if look and agent.watch is not None:
                agent.watch.look()
            waits = agent.at == "swap" and luck in (Luck.SLOW, Luck.HUNG, Luck.HUNG_BEFORE)
            when = Deaf(after=deaf_after, calls=deaf, heard=heard)
            self.world.go(agent, "answer" if waits else until, luck, blind=blind, deaf=when)

    def kill(self, n: int) -> None:
        if self.alive:
            agent = self.alive[n % len(self.alive)]
            SEEN[f"killed at: {agent.at}"] += 1
            self.world.kill(agent)

    def resume(self, n: int, host: str, store: int, until: str) -> None:
        records = self.world.runs(store, open_only=True)
        if records and len(self.alive) < MOST:
            self._unblock()
            self.world.go(self.world.resume(records[n % len(records)], host=host, store=store), until)

    def clean_up(self, host: str, store: int, until: str) -> None:
        if len(self.alive) < MOST:
            self.world.go(self.world.clean_up(host=host, store=store), until)

    def cancel(self, n: int) -> None:
        for store in range(len(self.world.stores)):
            if records := self.world.runs(store, open_only=True):
                self.world.stores[store].ask_to_cancel(records[n % len(records)].run_id)

    def deliver(self, n: int) -> None:
        if self.world.on_its_way:
            self.world.deliver(self.world.on_its_way[n % len(self.world.on_its_way)])

    def wait(self, minutes: int, heard: bool) -> None:
        self.world.wait(minutes, heard=heard)

    def write_late(self) -> None:
        if self.world.zombies:
            self.world.write_late()

    def take_back(self, store: int) -> None:
        """Somebody takes the newest run back."""
        records = self.world.runs(store)
        if records and len(self.alive) < MOST and not self.world.overdue:
            agent = self.world.take_back(records[0], store=store)
            self.world.go(agent)
            SEEN["taken back"] += not isinstance(agent.result, Exception)

    def _unblock(self) -> None:
        """Runs that failed one after the other must not stop the search."""
        self.world.check_alarms()
        for store in STAGE.stores:
            if store.failures(self.world.catalog.uuid):
                store.forget_failures(self.world.catalog.uuid)


def search(examples: int, *, first: int = 0) -> None:
    """Play examples; one that hurts is told as the shortest order of events that still does."""
    for number in range(first, first + examples):
        if number % STORES_LAST == 0:
            new_record_stores()
        example = Example.of(number)
        if error := _harm(example):
            shortest = _shortened(example, error)
            raise Violation(f"example {number}: {error}\n{shortest}") from error


def _harm(example: Example) -> Exception | None:
    try:
        Played(example)
    except Exception as error:
        return error
    return None


def _shortened(example: Example, error: Exception) -> Example:
    """Without every event that is not needed for the same harm."""
    size, shorter = max(1, len(example.events) // 2), True
    while size > 1 or shorter:
        before, at = len(example.events), 0
        while at < len(example.events):
            fewer = example._replace(events=[*example.events[:at], *example.events[at + size :]])
            if _kind(_harm(fewer)) == _kind(error):
                example = fewer
            else:
                at += size
        shorter = size > 1 or len(example.events) < before
        size = max(1, size // 2)
    return example


def _kind(error: Exception | None) -> object:
    return type(error), str(error).partition(":")[0]
