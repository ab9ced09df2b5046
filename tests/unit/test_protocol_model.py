"""A search for an order of events in which a row is lost, doubled or brought back, or a live file is deleted.

What decides is icepact's own code: it judges, commits, plans again, resumes, settles and cleans up, with its own
record store. Below it are a model of Iceberg and of storage, around it writers and other compactors. A process is a
thread that stops before every call that others can see, or that sees others; the search decides who goes on, who
dies, which answers are lost, and when they arrive after all.

What is taken for granted: a request to the catalog arrives within `COMMIT_WINDOW` after its attempt was recorded if
nobody waits for it any more; a task that stood still for `TASK_TIMEOUT` writes nothing; a process that stood still for
so long looks at its lease before it does anything else; only commits of icepact are rolled back, and not while another
one is under way for longer than `COMMIT_WINDOW`.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from itertools import count
from types import SimpleNamespace, TracebackType
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from icepact.commit import after, protocol, settle
from icepact.commit.judge import Answer, Verdict
from icepact.commit.protocol import Ready
from icepact.commit.settle import COMMIT_WINDOW
from icepact.iceberg import leftovers, replace
from icepact.iceberg.replace import COMMIT_ID
from icepact.iceberg.table import HeadView
from icepact.maintain import applying, ending, recovery, work
from icepact.maintain.work import BROKEN
from icepact.model import run as running
from icepact.model.errors import IcepactError
from icepact.model.plan import Before, Cost, Method, Plan, Prediction, RewriteFiles, Unit
from icepact.model.policy import Policy
from icepact.model.progress import Silent
from icepact.model.run import Claim, Owner, RunRecord, Status
from icepact.record.sql import SqlStore
from icepact.record.watch import Watch
from tests.support import model_table
from tests.support.model_table import (
    DAYS,
    EVERYWHERE,
    TASK_TIMEOUT,
    Catalog,
    Data,
    ModelStaging,
    ModelTable,
    Others,
    Place,
    Refusal,
    Rewrite,
    Violation,
)
from tests.support.records import NOON
from tests.support.states import make_policy

HOSTS = ("here", "there")
DAY1, DAY2 = DAYS
EXAMPLES = int(os.environ.get("EXAMPLES", "100"))
"""Of the search; `make chaos` plays more."""
STEPS = 60
"""Events of one example."""
MOST = 4
"""Processes at a time."""
STOPS = frozenset({"begin", "take", "move", "finish", "checkpoint", "acquire", "run"})
"""Calls of the record store before which a process stops."""
SEEN: Counter[str] = Counter()
"""What happened, over all examples."""
STAGE: Any = SimpleNamespace(world=None, stores=(), worlds=count(1))
"""The world that is played at the moment."""


class Luck(StrEnum):
    """What becomes of a commit on its way to the catalog and back."""

    GOOD = "answered"
    LOST = "it lands, and the answer is lost"
    DOUBLED = "it lands, and then conflicts with itself"
    STUCK = "the answer is lost, and it may land later"
    SLOW = "it may land later, and whoever sent it waits"
    BUSY = "others were always faster"
    FORBIDDEN = "not allowed"


# -- processes ------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process is no more; nothing it does on its way out has an effect."""


class Agent:
    """A process: icepact's code in a thread, which runs only while the test waits for it."""

    def __init__(self, world: "World", number: int, host: str, work: Callable[[], object]) -> None:
        self.owner = Owner(host=host, pid=number, born=number, boot=f"boot of {host}", space="all")
        self.at, self.what, self.since = "start", (), world.now
        self.killed = self.ended = False
        self.error: BaseException | None = None
        self.result: object = None
        self.watch: Watch | None = None
        self.attempted_at = world.now
        """When it last recorded an attempt."""
        self._world = world
        self._work = work
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name=f"agent-{number}", daemon=True)
        self._thread.start()

    def step(self) -> None:
        """Go on to the next stop, or to the end."""
        assert not self.ended
        self._go.release()
        assert self._back.acquire(timeout=60)
        if self.ended:
            self._thread.join()

    def stop(self, at: str, what: Sequence[Any]) -> timedelta:
        """Called in the thread: wait until the test lets it go on; says how long that took."""
        self.at, self.what, self.since = at, what, self._world.now
        self._back.release()
        self._go.acquire()
        if self.killed:
            raise Killed
        return self._world.now - self.since

    def _run(self) -> None:
        self._go.acquire()
        try:
            if not self.killed:
                self.result = self._work()
        except (Killed, IcepactError, Refusal) as error:
            self.result = error
        except BaseException as error:
            self.error = error
        self.ended = True
        self._back.release()


@dataclass(kw_only=True, eq=False)
class Request:
    """A commit on its way to the catalog."""

    rewrite: Rewrite
    sender: Agent
    waits: bool
    """Whether the sender waits for the answer."""
    deadline: datetime
    error: Refusal | None = None
    """The record does not know of it any more."""

    @property
    def run_id(self) -> str:
        return self.rewrite.change.facts[COMMIT_ID].partition("/")[0]


class Recorded:
    """A record store: processes stop before they call it."""

    def __init__(self, world: "World", store: SqlStore) -> None:
        self._world = world
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return partial(self._call, name)

    def _call(self, name: str, *given: Any, **named: Any) -> Any:
        self._world.stop(name, (), stops=name in STOPS)
        agent = self._world.current
        result = getattr(self._store, name)(*given, **named)
        if agent is not None and name == "move" and given[1] is Status.COMMITTING:
            agent.attempted_at = named["attempts"][-1].started_at
        return result


class Beating(Watch):
    """A watch without a thread: the test decides when it looks."""

    def __enter__(self) -> "Beating":
        STAGE.world.current.watch = self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        STAGE.world.current.watch = None
        self._store.release(self._lease)


class World:
    """One table, two record stores, two machines, and everybody on them."""

    def __init__(self) -> None:
        self.number = next(STAGE.worlds)
        self.now = NOON
        self.name = f"catalog-{self.number}"
        self.catalog = Catalog(uuid=f"table-{self.number}")
        self.others = Others(self.catalog)
        self.stores = [Recorded(self, store) for store in STAGE.stores]
        self.agents: list[Agent] = []
        self.current: Agent | None = None
        self.luck = Luck.GOOD
        self.on_its_way: list[Request] = []
        self.zombies: list[tuple[datetime, Sequence[Data]]] = []
        """What tasks of dead processes may still write, and until when."""
        self.sound = True
        self._tokens = count(1)
        self._checked: tuple[object, int] = (None, 0)
        STAGE.world = self

    # -- who is there -----------------------------------------------------------------------------

    def _agent(self, host: str, store: int, work: Callable[[Any, Any], object]) -> Agent:
        lake = SimpleNamespace(catalog=self.name, table=lambda name: self.table())
        agent = Agent(self, len(self.agents) + 1, host, lambda: work(lake, self.stores[store]))
        self.agents.append(agent)
        return agent

    def table(self) -> ModelTable:
        """The table, loaded once more."""
        return ModelTable(self.catalog, self.stop, self.send)

    def start(
        self, *groups: Sequence[str], host: str = "here", store: int = 0, commits: int = 1, split: bool = False
    ) -> Agent:
        """Pin, plan and begin."""
        plan = self._plan(groups, _policy(commits), split)
        return self._agent(host, store, lambda lake, records: applying.apply(lake, plan, records, Silent()))

    def resume(self, record: RunRecord, *, host: str = "here", store: int = 0) -> Agent:
        """Carry on with a run."""
        return self._agent(host, store, lambda lake, records: applying.resume(lake, record, records, Silent()))

    def clean_up(self, *, host: str = "here", store: int = 0) -> Agent:
        """Clean up after all runs."""
        return self._agent(host, store, lambda lake, records: recovery.clean_up(lake, records, delete=True))

    def runs(self, store: int = 0, *, open_only: bool = False) -> list[RunRecord]:
        """Newest first."""
        return list(self.stores[store].runs(catalog=self.name, open_only=open_only))

    def _plan(self, groups: Sequence[Sequence[str]], policy: Policy, split: bool) -> Plan:
        view = self.table().view("main", [path for group in groups for path in group])
        live = {f.path: f for f in view.files}
        steps = []
        for n, group in enumerate(groups, start=1):
            files = tuple(live[path] for path in group)
            steps.append(
                RewriteFiles(
                    group_id=f"g{n}",
                    partition=str(files[0].partition),
                    output_spec_id=1,
                    regroup=files[0].spec_id == 0,
                    units=tuple(Unit(files=(f,)) for f in files) if split else (Unit(files=files),),
                    method=Method.SPARK,
                    method_reason="",
                    cost=Cost(seconds=1, baseline_seconds=1, copied_bytes=0, encoded_bytes=0, requests=0),
                    reason="",
                    predicted_files=1,
                    predicted_bytes=1,
                    delete_records=0,
                )
            )
        return Plan(
            table=ModelTable.name,
            uuid=self.catalog.uuid,
            branch="main",
            snapshot_id=view.snapshot_id,
            sequence_number=view.sequence_number,
            format_version=view.format_version,
            policy=policy,
            steps=tuple(steps),
            deletes=view.deletes,
            left_out=(),
            predicted=Prediction(**dict.fromkeys(Prediction.__slots__, 0)),
            before=Before(files=0, rows=0, bytes=0),
            complete=True,
        )

    # -- what happens -----------------------------------------------------------------------------

    def go(self, agent: Agent, until: str = "end", luck: Luck = Luck.GOOD) -> None:
        """Let a process go on until it comes to a stop of that name (`any`: the next one), or to its end.

        The luck is that of the first commit on the way.
        """
        self.luck = luck
        if agent.watch is not None and self.now - agent.since > TASK_TIMEOUT:
            agent.watch.look()
        for _ in range(1000):
            self.step(agent)
            if agent.ended or until in ("any", agent.at):
                return
        raise AssertionError(f"{agent.owner} does not come to an end")

    def step(self, agent: Agent) -> None:
        """To the next stop."""
        self.current = agent
        agent.step()
        self.current = None
        if agent.error is not None:
            self.sound = False
            raise agent.error
        metadata, files = self.catalog.metadata, len(self.catalog.storage)
        if metadata is not self._checked[0] or files != self._checked[1]:
            self.check()
            self._checked = metadata, files

    def check(self) -> None:
        """Whether all is well."""
        try:
            self.others.check()
        except Violation:
            self.sound = False
            raise

    def kill(self, agent: Agent) -> None:
        """The process dies where it is; if it was writing, its tasks may not know yet."""
        if not agent.ended:
            if agent.at == "write":
                self.zombies.append((agent.since + TASK_TIMEOUT, agent.what))
            agent.killed = True
            self.step(agent)
            assert agent.ended

    def stop(self, at: str, what: Sequence[Any], *, stops: bool = True) -> timedelta:
        """Called by icepact's code, before something that others can see."""
        agent = self.current
        if agent is None:  # the test itself
            return timedelta()
        if agent.killed:
            raise Killed
        return agent.stop(at, what) if stops else timedelta()

    def send(self, rewrite: Rewrite) -> None:
        """A commit, called by icepact's code."""
        self.stop("send", ())
        agent = self.current
        assert agent is not None
        luck, self.luck = self.luck, Luck.GOOD
        SEEN[f"commit: {luck}"] += 1
        match luck:
            case Luck.GOOD | Luck.LOST | Luck.DOUBLED:
                self._land(rewrite)
            case Luck.SLOW | Luck.STUCK:
                deadline = agent.attempted_at + COMMIT_WINDOW
                request = Request(rewrite=rewrite, sender=agent, waits=luck is Luck.SLOW, deadline=deadline)
                self.on_its_way.append(request)
                if luck is Luck.SLOW:
                    self.stop("answer", ())
                    self.deliver(request)
                    if request.error is not None:
                        raise request.error
        told = {
            **dict.fromkeys((Luck.LOST, Luck.STUCK), "CommitStateUnknownException"),
            **dict.fromkeys((Luck.DOUBLED, Luck.BUSY), "CommitFailedException"),
            Luck.FORBIDDEN: "ForbiddenException",
        }
        if luck in told:
            raise Refusal(told[luck], luck)

    def _land(self, rewrite: Rewrite) -> None:
        rewrite.land(self.catalog)
        SEEN["landed late" if rewrite.change.number is not None else "landed strictly"] += 1

    def deliver(self, request: Request) -> None:
        """A commit arrives at the catalog, unless that is too late or it did already."""
        if request not in self.on_its_way:
            return
        self.on_its_way.remove(request)
        if self.now <= request.deadline or (request.waits and not request.sender.ended):
            try:
                self._land(request.rewrite)
            except Refusal as error:
                request.error = error

    def wait(self, minutes: int, *, heard: bool = True) -> None:
        """Time goes by; whoever is not heard of stood still, or could not reach the store."""
        self.now += timedelta(minutes=minutes)
        for agent in self.agents:
            if heard and agent.watch is not None and not agent.ended:
                agent.watch.look()

    def write_late(self) -> None:
        """A task writes, which has outlived its process."""
        deadline, files = self.zombies.pop()
        if self.now < deadline:
            self.catalog.store(files)

    def born(self, pid: int) -> int:
        """As the kernel tells it; 0 of a process that is gone."""
        return 0 if self.agents[pid - 1].ended else pid

    # -- the end ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Everybody dies."""
        self.sound = False
        for agent in self.agents:
            agent.killed = True
            if not agent.ended:
                self.current = agent
                agent.step()
        self.current = None

    def end(self) -> None:
        """Everybody dies; after two clean-ups, one of them late enough, nothing is left and no run is open."""
        for agent in self.agents:
            self.kill(agent)
        self._clean_everywhere()
        while self.zombies:
            self.write_late()
        self.wait(150)
        self._clean_everywhere()
        self.check()
        for store in range(len(self.stores)):
            SEEN.update(f"run: {record.status}" for record in self.runs(store))
            still = [(record.run_id, record.status.value) for record in self.runs(store, open_only=True)]
            if still:
                raise Violation(f"still open: {still}")
        kept = {path for s in self.catalog.metadata.snapshots.values() for path in s.paths}
        left = sorted(path for path in self.catalog.storage - kept if path.startswith("icepact-"))
        if left:
            raise Violation(f"left on storage: {left}")

    def _clean_everywhere(self) -> None:
        for store in range(len(self.stores)):
            for host in HOSTS:
                self.go(self.clean_up(host=host, store=store))


def _policy(commits: int) -> Policy:
    return _POLICIES[commits]


_POLICIES = {commits: make_policy(verify="off", max_commits=commits) for commits in (1, 2)}


# -- the stage ------------------------------------------------------------------------------------


class ModelTime(datetime):
    """The world's clock."""

    @classmethod
    def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
        return STAGE.world.now  # type: ignore[no-any-return]


def _this_process() -> Owner:
    agent = STAGE.world.current
    return agent.owner if agent else Owner(host="the test", pid=0, born=0)


def _sleep(seconds: float) -> None:
    STAGE.world.stop("sleep", ())


def _judged(view: HeadView, groups: Sequence[Ready], *, pinned_version: int) -> list[tuple[Ready, Verdict]]:
    verdicts = _REAL_JUDGED(view, groups, pinned_version=pinned_version)
    SEEN.update(f"judged: {verdict.answer}" for _, verdict in verdicts)
    return verdicts


_REAL_JUDGED = protocol.judged
_REAL_DANGLING = protocol._dangling


@pytest.fixture(scope="module", autouse=True)
def stores() -> Iterator[None]:
    """Two record stores for all worlds: each world has a catalog of its own in them."""
    STAGE.stores = [SqlStore.in_memory(clock=lambda: STAGE.world.now) for _ in range(2)]
    yield
    for store in STAGE.stores:
        store.close()


@pytest.fixture(autouse=True)
def stage(stores: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """icepact's own code, with the model in place of Spark, Iceberg, storage, clock and processes."""
    tokens = SimpleNamespace(token_hex=lambda _: f"{STAGE.world.number:06x}{next(STAGE.world._tokens):04x}")
    clock = SimpleNamespace(monotonic=lambda: (STAGE.world.now - NOON).total_seconds(), sleep=_sleep)
    for module, names in {
        protocol: {
            **{"datetime": ModelTime, "judged": _judged, "this_process": _this_process},
            "mark_of": lambda table, rewrite: "",  # what is left beside the data, the model does not know
        },
        after: {"roll_back": _roll_back},
        settle: {"datetime": ModelTime, "referenced": model_table.referenced},
        applying: {
            **{"datetime": ModelTime, "secrets": tokens, "time": clock, "this_process": _this_process},
            "Watch": Beating,
            **{name: getattr(model_table, name) for name in ("referenced", "delete_files", "run_folder")},
        },
        ending: {"time": clock},
        recovery: {
            **{"datetime": ModelTime, "secrets": tokens, "this_process": _this_process, "roll_back": _roll_back},
            **{n: getattr(model_table, n) for n in ("referenced", "listed_files", "delete_files", "run_folder")},
            "unfinished_uploads": lambda table, run_id: 0,
        },
        work: {
            **{"Staging": ModelStaging, "execute": model_table.execute},
            **{"commit": partial(protocol.commit, sleep=_sleep), "datetime": ModelTime},
        },
        leftovers: {name: getattr(model_table, name) for name in ("listed_files", "delete_files")},
        replace: {"ensure_callback_server_started": lambda _: None, "_delete_files": model_table.deletes_to_remove},
        running: {"this_process": _this_process, "_born": lambda pid: STAGE.world.born(pid)},
    }.items():
        for name, stand_in in names.items():
            monkeypatch.setattr(module, name, stand_in)


def _roll_back(table: ModelTable, branch: str, *, bad: int, good: int) -> bool:
    return table.catalog.roll_back(bad=bad, good=good)


@pytest.fixture
def world() -> Iterator[World]:
    """A world in which nothing is left out."""
    world = World()
    yield world
    world.close()


# -- the search -----------------------------------------------------------------------------------

NUMBERS = st.integers(0, 7)
UNTIL = st.sampled_from(["end", "end", "send", "send", "any", "write", "refresh", "move", "take", "delete", "finish"])
CHANGES = (
    *("append", "equality", "upsert", "position", "positions", "overwrite", "drop", "convert", "expire", "upgrade"),
    *("compact", "compacted", "compacted with a new number"),
)
"""What others do to the table."""


class Event(NamedTuple):
    """Something that can happen: a method of the search, and what it is given."""

    name: str
    given: dict[str, Any]


WHERE = {"host": st.sampled_from(HOSTS), "store": st.sampled_from([0, 0, 0, 1]), "until": UNTIL}
EVENTS: dict[str, tuple[int, dict[str, st.SearchStrategy[Any]]]] = {
    "wait": (4, {"minutes": st.sampled_from([1, 3, 20, 40, 90]), "heard": st.booleans()}),
    "change": (12, {"how": NUMBERS, "place": st.sampled_from([*DAYS, EVERYWHERE]), "n": NUMBERS}),
    "start": (
        4,
        {
            "labels": st.lists(st.sampled_from([0, 1, 1, 2]), min_size=3, max_size=6),
            "commits": st.integers(1, 2),
            "split": st.booleans(),
            **WHERE,
        },
    ),
    "go": (14, {"n": NUMBERS, "until": UNTIL, "luck": st.sampled_from(Luck), "look": st.booleans()}),
    "resume": (4, {"n": NUMBERS, **WHERE}),
    "clean_up": (4, WHERE),
    "kill": (3, {"n": NUMBERS}),
    "deliver": (4, {"n": NUMBERS}),
    "write_late": (1, {}),
    "roll_back": (1, {}),
    "cancel": (1, {"n": NUMBERS}),
}
"""How often, and what with. One rule plays them all: rules of their own would be switched off in most examples."""


def _events() -> st.SearchStrategy[Event]:
    names = [name for name, (weight, _) in EVENTS.items() for _ in range(weight)]
    return st.sampled_from(names).flatmap(lambda name: st.fixed_dictionaries(EVENTS[name][1]).map(partial(Event, name)))


class Search(RuleBasedStateMachine):
    """Everything that can happen, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.others = self.world.others

    @initialize(old=st.booleans(), kinds=st.lists(st.sampled_from(CHANGES), min_size=1, max_size=4, unique=True))
    def begin(self, old: bool, kinds: list[str]) -> None:
        """In each example others do only a few kinds of things, and those more often."""
        self.kinds = kinds
        self.others.append(DAY1, 0, 1)
        self.others.append(DAY1, 1, 2)
        self.others.append(DAY2, 0, 1)
        if old:
            self.others.append(EVERYWHERE, 0, 1)

    @rule(event=_events())
    def happens(self, event: Event) -> None:
        getattr(self, event.name)(**event.given)
        self.world.check()

    # -- others -----------------------------------------------------------------------------------

    def change(self, how: int, place: Place, n: int) -> None:
        kind, files = self.kinds[how % len(self.kinds)], sorted(self.others.head.files)
        match kind:
            case "append":
                self.others.append(place if place in DAYS else DAY1, n % 3)
            case "equality" | "upsert":
                self.others.delete_equal(place, n % 3, insert=kind == "upsert")
            case "expire":
                self.world.catalog.expire(1 + n % 3)
            case "upgrade":
                self.others.upgrade()
            case "compacted" | "compacted with a new number":
                SEEN["compacted elsewhere"] += self.others.end_compaction(keep_number=kind == "compacted")
            case "convert":
                if equality := sorted(d.path for d in self.others.head.deletes.values() if d.key is not None):
                    self.others.convert(equality[n % len(equality)])
            case _ if files:
                self._change_file(kind, files[n % len(files)], n)

    def _change_file(self, kind: str, path: str, n: int) -> None:
        match kind:
            case "position" | "positions":
                self.others.delete_row(path, n, shared=kind == "positions")
            case "overwrite":
                self.others.overwrite(path)
            case "drop":
                self.others.drop(path)
            case "compact":
                place = self.others.head.files[path].place
                same = [f.path for f in self.others.head.files.values() if f.place == place and f.path != path]
                self.others.begin_compaction(path, *same[: n % 2])

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
            self._forgive()
            agent = self.world.start(*groups.values(), host=host, store=store, commits=commits, split=split)
            self.world.go(agent, until)

    def go(self, n: int, until: str, luck: Luck, look: bool) -> None:
        if self.alive:
            agent = self.alive[n % len(self.alive)]
            if look and agent.watch is not None:
                agent.watch.look()
            self.world.go(agent, "answer" if (agent.at, luck) == ("send", Luck.SLOW) else until, luck)

    def kill(self, n: int) -> None:
        if self.alive:
            self.world.kill(self.alive[n % len(self.alive)])

    def resume(self, n: int, host: str, store: int, until: str) -> None:
        records = self.world.runs(store, open_only=True)
        if records and len(self.alive) < MOST:
            self._forgive()
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

    def roll_back(self) -> None:
        """Somebody takes the last commit of icepact back."""
        head = self.others.head
        if any(self.world.now > request.deadline for request in self.world.on_its_way):
            return
        if COMMIT_ID in head.facts and head.parent in self.world.catalog.metadata.snapshots:
            self.world.catalog.roll_back(bad=head.id, good=head.parent)
            # row ids that an upgraded table was given with that commit are gone with it
            self.others.row_ids = {row: row_id for row, row_id in self.others.head.read_all() if row_id is not None}

    def _forgive(self) -> None:
        """Runs that failed one after the other must not stop the search."""
        for store in STAGE.stores:
            alarms = [f.reason for f in store.failures(self.world.catalog.uuid) if f.signature == BROKEN]
            if alarms:
                raise Violation(f"an alarm: {alarms[0]}")
        for store in self.world.stores:
            store.forgive(self.world.catalog.uuid)

    def teardown(self) -> None:
        try:
            if self.world.sound:
                self.world.end()
        finally:
            self.world.close()


def search(examples: int, kind: type[Search] = Search, **more: Any) -> None:
    """Play examples, ten at a time: from the eleventh on, hypothesis plays the same with small changes."""
    some = settings(max_examples=10, stateful_step_count=STEPS, report_multiple_bugs=False, **more)
    for number in range(examples // 10):
        run_state_machine_as_test(seed(number)(type("Search", (kind,), {})), settings=some)


def test_no_order_of_events_hurts() -> None:
    SEEN.clear()
    search(EXAMPLES)
    assert SEEN["landed strictly"] > SEEN["landed late"] > 0


# -- what each protection is for ------------------------------------------------------------------


def deleted_and_appended(world: World) -> None:
    """All old files are rewritten; meanwhile an equality delete and an append."""
    file = world.others.append(DAY1, 1, 2)
    agent = world.start([file])
    world.go(agent, "write")
    world.others.delete_equal(DAY1, 1)
    world.others.append(DAY1, 5)
    world.go(agent)


def converted_before_the_judgement(world: World) -> None:
    """An equality delete comes and is converted while files are written."""
    world.others.append(DAY1, 3)
    file = world.others.append(DAY1, 1, 2)
    agent = world.start([file])
    world.go(agent, "write")
    world.others.convert(world.others.delete_equal(DAY1, 1))
    world.go(agent)


def converted_after_the_judgement(world: World) -> None:
    """The group is late because of an equality delete; that is converted while the commit is on its way."""
    world.others.append(DAY1, 3)
    file = world.others.append(DAY1, 1, 2)
    agent = world.start([file])
    world.go(agent, "write")
    delete = world.others.delete_equal(DAY1, 1)
    world.go(agent, "send")
    world.others.convert(delete)
    world.go(agent)


def one_group_falls_out(world: World) -> None:
    """A delete applies to two groups; one of them is not committed with the other."""
    one, other = world.others.append(DAY1, 1, 2), world.others.append(DAY1, 1, 3)
    world.others.delete_equal(DAY1, 1)
    agent = world.start([one], [other])
    world.go(agent, "write")
    world.others.delete_row(other)
    world.go(agent)


def killed_while_committing(world: World) -> None:
    """The commit lands after the clean-up has looked."""
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "answer", Luck.SLOW)
    world.kill(agent)
    world.go(world.clean_up())
    world.deliver(world.on_its_way[0])
    world.check()


def woken_while_fenced(world: World) -> None:
    """A run that stood still goes on just when the clean-up has found it dead."""
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "move")
    world.wait(5, heard=False)
    cleaner = world.clean_up()
    world.go(cleaner, "take")
    world.go(agent, "answer", Luck.SLOW)
    world.go(cleaner)
    for request in list(world.on_its_way):
        world.deliver(request)
    world.check()


def not_bound(patch: pytest.MonkeyPatch) -> None:
    """The commit is not bound to the head at which it was judged."""
    patch.setattr(replace._BoundToHead, "validate", lambda self, snapshots: True)


def late_anyway(patch: pytest.MonkeyPatch) -> None:
    """Late groups are committed whether or not an old file remains."""
    patch.setattr(protocol, "_safely_late", lambda view, pinned, late: (list(late), []))


def dangling_at_the_pin(patch: pytest.MonkeyPatch) -> None:
    """Which deletes go is judged at the pin, for all that was planned."""

    def remembering(table: Any, staging: Any, batch: Any, groups: Sequence[Ready], *more: Any) -> Any:
        STAGE.world.current.pinned = batch.pinned_snapshot, frozenset(path for g in groups for path in g.paths)
        return protocol.commit(table, staging, batch, groups, *more, sleep=_sleep)

    def at_the_pin(table: Any, view: HeadView, inputs: frozenset[str], *, keep_after: int | None) -> Any:
        pin, planned = STAGE.world.current.pinned
        if table.has_snapshot(pin):
            view, inputs = table.view_of(table.snapshot(pin), planned), planned
        return _REAL_DANGLING(table, view, inputs, keep_after=keep_after)

    patch.setattr(work, "commit", remembering)
    patch.setattr(protocol, "_dangling", at_the_pin)


def left_to_iceberg(patch: pytest.MonkeyPatch) -> None:
    """Deletes that came meanwhile are left to Iceberg's own validation."""

    def judged(view: HeadView, groups: Sequence[Ready], *, pinned_version: int) -> list[tuple[Ready, Verdict]]:
        verdicts = _REAL_JUDGED(view, groups, pinned_version=pinned_version)
        late = Verdict(answer=Answer.LATE)
        return [(group, late if verdict.answer is Answer.REPLAN else verdict) for group, verdict in verdicts]

    patch.setattr(protocol, "judged", judged)


def hasty_clean_up(patch: pytest.MonkeyPatch) -> None:
    """The clean-up does not ask what became of the last commit."""
    patch.setattr(recovery, "_ends_of", lambda *given: [])


def taken_as_it_is(patch: pytest.MonkeyPatch) -> None:
    """A run is taken whatever became of it since it was looked at."""
    take = SqlStore.take

    def anyway(self: SqlStore, record: RunRecord, owner: Owner, *, to: Status) -> Claim:
        now = self.run(record.run_id)
        assert now is not None
        return take(self, now, owner, to=to)

    patch.setattr(SqlStore, "take", anyway)


Unprotected = Callable[[pytest.MonkeyPatch], None]
DANGERS: dict[Unprotected, Callable[[World], None]] = {
    not_bound: converted_after_the_judgement,
    late_anyway: deleted_and_appended,
    dangling_at_the_pin: one_group_falls_out,
    left_to_iceberg: converted_before_the_judgement,
    hasty_clean_up: killed_while_committing,
    taken_as_it_is: woken_while_fenced,
}


@pytest.mark.parametrize("danger", DANGERS.values(), ids=lambda danger: danger.__name__)
def test_a_danger_is_averted(world: World, danger: Callable[[World], None]) -> None:
    danger(world)
    world.end()


@pytest.mark.parametrize(("unprotected", "danger"), DANGERS.items(), ids=lambda function: function.__name__)
def test_a_danger_is_real(
    world: World, unprotected: Unprotected, danger: Callable[[World], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    unprotected(monkeypatch)
    with pytest.raises(Violation, match=r"back|not on storage"):
        danger(world)


@pytest.mark.matrix
@pytest.mark.parametrize("unprotected", DANGERS, ids=lambda function: function.__name__)
def test_the_search_finds_what_is_unprotected(unprotected: Unprotected, monkeypatch: pytest.MonkeyPatch) -> None:
    unprotected(monkeypatch)
    with pytest.raises(Violation):
        search(500, phases=[Phase.generate])


# -- what the search found -------------------------------------------------------------------------


def test_a_run_that_lost_its_lease_leaves_its_files_to_the_next(world: World) -> None:
    """A process stands still, another one resumes and commits what it had written; then it wakes up."""
    agent = world.start([world.others.append(DAY1, 1, 2)], [world.others.append(DAY2, 1, 2)])
    world.go(agent, "write")
    world.go(agent, "write")  # the first group is written and recorded, the second under way
    world.wait(5, heard=False)
    world.go(world.resume(world.runs()[0]))
    assert world.runs()[0].status is Status.COMMITTED
    assert agent.watch is not None
    agent.watch.look()
    world.go(agent)
    world.end()


def test_a_run_that_stands_still_while_it_cleans_up_deletes_nothing_that_was_resumed(world: World) -> None:
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "delete", Luck.FORBIDDEN)
    world.wait(5, heard=False)
    world.go(world.resume(world.runs()[0]))
    world.go(agent)
    world.end()


def test_a_commit_of_a_resumed_runs_predecessor_is_not_forgotten(world: World) -> None:
    """A commit has no answer, and the resumed run ends without having moved the head. It leaves its files to the
    clean-up, which must not delete them yet."""
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "send")
    world.go(agent, "refresh", Luck.STUCK)
    world.kill(agent)
    world.go(world.resume(world.runs()[0]), luck=Luck.FORBIDDEN)
    assert world.runs()[0].status is Status.FAILED
    world.go(world.clean_up())
    world.deliver(world.on_its_way[0])
    world.check()


def test_a_run_is_not_taken_from_another_attempt_than_was_judged(world: World) -> None:
    """The clean-up finds that the attempt of a run that stood still is refused for good. The run goes on, is refused,
    and sends another. State and epoch are the same as before, so the clean-up takes it."""
    other = world.others.append(DAY2, 1, 2)
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "send")
    world.others.delete_row(other)
    world.wait(40, heard=False)
    cleaner = world.clean_up()
    world.go(cleaner, "take")
    world.go(agent, "send")
    world.go(agent, "answer", Luck.SLOW)
    world.go(cleaner)
    world.deliver(world.on_its_way[0])
    world.check()


def test_a_clean_up_that_died_is_done_again(world: World) -> None:
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "move")
    world.kill(agent)
    cleaner = world.clean_up()
    world.go(cleaner, "take")
    world.go(cleaner, "any")
    assert world.runs()[0].status is Status.FENCED
    world.kill(cleaner)
    world.end()


def test_a_delete_that_iceberg_drops_rightly_is_no_alarm(world: World) -> None:
    """A delete of another partition came after the pin and applies to nothing any more. The inputs were the only
    files that are older, so Iceberg drops it with the commit, and the commit is taken for broken."""
    file, other = world.others.append(DAY1, 1, 2), world.others.append(DAY2, 1, 2)
    agent = world.start([file])
    world.others.delete_equal(DAY2, 1)
    world.others.overwrite(other)
    world.go(agent)
    assert world.runs()[0].status is Status.COMMITTED


def test_a_commit_that_is_refused_for_good_stays_refused_after_a_rollback(world: World) -> None:
    """Another run commits at the same head; the first one's commit is refused for good, and its files are deleted.
    Then the other run is rolled back, and the head is again the one to which the commit is bound."""
    file = world.others.append(DAY1, 1, 2)
    first, second = world.start([file]), world.start([file], store=1)
    world.go(first, "send")
    world.go(second)
    world.wait(5, heard=False)
    world.go(world.clean_up())
    table = SimpleNamespace(catalog=world.name, table=lambda name: world.table())
    recovery.take_back(table, world.runs(1)[0], world.stores[1])  # type: ignore[arg-type]
    world.go(first)


def test_a_group_that_is_not_in_the_table_is_not_called_committed(world: World) -> None:
    """A process dies just before it commits two groups. One of them is superseded; the resumed run commits the files
    of the other. Asked for the attempt of the dead one, it finds them, and takes both groups for committed."""
    one, other = world.others.append(DAY1, 1, 2), world.others.append(DAY2, 1, 2)
    first = world.start([one], [other])
    world.go(first, "send")
    world.kill(first)
    second = world.resume(world.runs()[0])
    world.go(second, "take")
    world.others.overwrite(other)
    world.go(second)
    [record] = world.runs()
    assert (record.status, len(record.landed)) == (Status.PARTLY_COMMITTED, 1)


def test_a_commit_is_counted_once(world: World) -> None:
    """As before, with one group: the resumed run takes its own commit for that of the dead one, too."""
    first = world.start([world.others.append(DAY1, 1, 2)])
    world.go(first, "send")
    world.kill(first)
    world.go(world.resume(world.runs()[0]))
    [record] = world.runs()
    assert [landed.snapshot_id for landed in record.landed] == [world.others.head.id]


def test_a_commit_without_an_answer_is_tried_again(world: World) -> None:
    """The first one arrives when the second has landed, and is refused."""
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, luck=Luck.STUCK)
    [record] = world.runs()
    assert (record.status, len(record.landed), len(record.attempts)) == (Status.COMMITTED, 1, 1)
    world.deliver(world.on_its_way[0])
    world.end()
    [record] = world.runs()
    assert (record.status, len(record.landed), len(record.attempts)) == (Status.COMMITTED, 1, 0)


def test_a_commit_that_lands_late_is_not_made_twice(world: World) -> None:
    """The first one lands just before the second is judged."""
    agent = world.start([world.others.append(DAY1, 1, 2)])
    world.go(agent, "send")
    world.go(agent, "move", Luck.STUCK)
    world.deliver(world.on_its_way[0])
    world.go(agent)
    [record] = world.runs()
    assert (record.status, len(record.landed), len(record.attempts)) == (Status.COMMITTED, 1, 0)
    world.end()


def test_two_commits_without_an_answer_are_both_remembered(world: World) -> None:
    """The commit of a dead process lands while its successor's own has no answer; then that one dies, too."""
    first = world.start([world.others.append(DAY1, 1, 2)], [world.others.append(DAY2, 1, 2)], commits=2)
    world.go(first, "answer", Luck.SLOW)
    world.kill(first)
    second = world.resume(world.runs()[0])
    world.go(second, "take")
    world.deliver(world.on_its_way[0])
    world.go(second, "finish", Luck.STUCK)
    world.kill(second)
    world.go(world.clean_up())
    for request in list(world.on_its_way):
        world.deliver(request)
    world.check()
    world.end()
    [record] = world.runs()
    assert (record.status, len(record.landed)) == (Status.COMMITTED, 2)


def test_what_is_left_over_goes_even_if_what_was_committed_has_expired(world: World) -> None:
    """A clean-up that knows what the run committed does not ask the table. But if that is not on storage any more,
    nothing in the folder counts as unwanted, for ever."""
    one, other = world.others.append(DAY1, 1, 2), world.others.append(DAY2, 1, 2)
    agent = world.start([one], [other], commits=2)
    world.go(agent, "send")
    world.go(agent, "write")
    world.kill(agent)
    world.go(world.clean_up())
    world.others.overwrite(next(path for path in world.others.head.files if path.startswith("icepact-")))
    world.catalog.expire(1)
    world.end()
