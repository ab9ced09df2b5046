"""A world in which icepact's own protocol code runs: it judges, commits, plans again, resumes, settles and cleans up,
with its own record store. Below it are a model of Iceberg and of storage, around it writers and other compactors.

A process is a thread that stops before every call that others can see, or that sees others; the test decides who goes
on, who dies, which answers are lost, and when they arrive after all.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from itertools import count
from types import SimpleNamespace, TracebackType
from typing import Any

import pytest

from icepact.commit import post_commit as after
from icepact.commit import protocol
from icepact.commit import reconcile as settle
from icepact.commit.batches import ProvenGroup
from icepact.commit.judge import Verdict
from icepact.commit.reconcile import COMMIT_WINDOW
from icepact.iceberg.commit import orphan_metadata as traces
from icepact.iceberg.commit import replace
from icepact.iceberg.commit import run_files as leftovers
from icepact.iceberg.table.table import HeadView
from icepact.maintain import aftercare, cleanup, outcomes, rolled_back, rounds, runs
from icepact.maintain.failures import BROKEN
from icepact.model.cost import Cost
from icepact.model.effort import Estimate
from icepact.model.errors import BadInput, IcepactError
from icepact.model.methods import Method
from icepact.model.plan import Before, Plan, Prediction, RewriteFiles, Unit
from icepact.model.policy import Policy
from icepact.model.progress import Silent
from icepact.model.run import Owner, RunRecord
from icepact.model.status import Status
from icepact.record import process
from icepact.record.kv.store import KvStore
from icepact.record.store import RecordStore
from icepact.record.watch import Watch
from tests.support import model_table
from tests.support.model_iceberg import Catalog, Compares, Data, Metadata, Refusal, Violation
from tests.support.model_others import Others
from tests.support.model_table import RETRIES, TASK_TIMEOUT, ModelLateDeletes, ModelStaging, ModelTable, Tried
from tests.support.records import NOON
from tests.support.states import make_policy

HOSTS = ("here", "there")
STOPS = frozenset({"begin", "take", "move", "finish", "checkpoint", "acquire", "run"})
"""Calls of the record store before which a process stops."""
UNDER_WAY = frozenset({"move", "send", "swap", "again", "answer"})
"""Stops between the last look before a commit and its answer."""
MOST_STOPS = 1000
"""That a process comes by before its end."""
SEEN: Counter[str] = Counter()
"""What happened, over all examples."""
STAGE: Any = SimpleNamespace(world=None, stores=(), worlds=count(1))
"""The world that is played at the moment."""


class Luck(StrEnum):
    """What becomes of a commit on its way to the catalog and back."""

    GOOD = "answered"
    LOST = "it lands, and the answer is lost"
    REPEATED = "it lands, is sent once more, and conflicts with itself"
    REPEATED_LAST = "so does the last try, after others were always faster"
    AWAY = "it lands and conflicts with itself, and then the table cannot be read"
    NOT_ANY_MORE = "it lands, is sent once more, and that is not allowed any more"
    STUCK_AND_NOT_ANY_MORE = "it may land later, is sent once more, and that is not allowed any more"
    HUNG = "it lands, and the answer never comes"
    HUNG_BEFORE = "it never arrives, and nobody says so"
    STUCK = "the answer is lost, and it may land later"
    SLOW = "it may land later, and whoever sent it waits"
    BUSY = "others were always faster"
    FORBIDDEN = "not allowed"
    FULL = "storage takes nothing more while its manifests are written"


_TOLD = {
    Luck.LOST: "CommitStateUnknownException",
    Luck.STUCK: "CommitStateUnknownException",
    Luck.HUNG: "RESTException",
    Luck.HUNG_BEFORE: "RESTException",
    Luck.REPEATED: "CommitFailedException",
    Luck.REPEATED_LAST: "CommitFailedException",
    Luck.AWAY: "CommitFailedException",
    Luck.BUSY: "CommitFailedException",
    Luck.NOT_ANY_MORE: "NotAuthorizedException",
    Luck.STUCK_AND_NOT_ANY_MORE: "NotAuthorizedException",
    Luck.FORBIDDEN: "ForbiddenException",
}


# -- processes ------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process is no more; nothing it does on its way out has an effect."""


class Agent:
    """A process: icepact's code in a thread, which runs only while the test waits for it."""

    def __init__(self, world: "World", number: int, host: str, work: Callable[[], object]) -> None:
        self.owner = Owner(host=host, pid=number, born=number, boot=f"boot of {host}", space="all")
        self.at, self.since = "start", world.now
        self.what: Sequence[Any] = ()
        self.killed = self.ended = False
        self.error: BaseException | None = None
        self.result: object = None
        self.watch: Watch | None = None
        self.attempted_at = world.now
        """When it last recorded an attempt."""
        self.until = "any"
        """The stop up to which it may go."""
        self.away = False
        """True if the catalog does not let it read the table while it commits."""
        self._world = world
        self._work = work
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name=f"agent-{number}", daemon=True)
        self._thread.start()

    def step(self) -> None:
        """Go on to the next stop, or to the end."""
        assert not self.ended
        self._take_turn()

    def _take_turn(self) -> None:
        self._go.release()
        assert self._back.acquire(timeout=60)
        if self.ended:
            self._thread.join()

    def stop(self, at: str, what: Sequence[Any]) -> timedelta:
        """Called in the thread: wait until the test lets it go on; says how long that took."""
        self.at, self.what, self.since = at, what, self._world.now
        if not self._world.passes(self):
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

    tried: Tried
    sender: Agent
    waits: bool
    """Whether the sender waits for the answer."""
    deadline: datetime
    error: Refusal | None = None


@dataclass(kw_only=True)
class Deaf:
    """When the record store is not there."""

    after: int = 0
    """So many calls."""
    calls: int = 0
    """For so many calls."""
    heard: bool = False
    """Whether it does what it is asked for, and only the answer is lost."""


class Recorded:
    """A record store: processes stop before they call it."""

    def __init__(self, world: "World", store: RecordStore) -> None:
        self._world = world
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return partial(self._call, name)

    def _call(self, name: str, *given: Any, **named: Any) -> Any:
        self._world.stop(name, (), stops=name in STOPS)
        agent = self._world.current
        deaf = agent is not None and self._world.is_deaf()
        if deaf and not self._world.deaf.heard:
            raise BadInput("the record store cannot be reached")
        result = getattr(self._store, name)(*given, **named)
        if deaf:
            raise BadInput("the record store does not answer")
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
        with suppress(IcepactError):  # it expires
            self._store.release(self._lease)


class World:
    """One table, two record stores, two machines, and everybody on them."""

    def __init__(self, compares: Compares = Compares.EVERYTHING) -> None:
        self.number = next(STAGE.worlds)
        self.now = NOON
        self.name = f"catalog-{self.number}"
        self.catalog = Catalog(f"table-{self.number}", lambda: self.now, compares)
        self.others = Others(self.catalog)
        self.stores = [Recorded(self, store) for store in STAGE.stores]
        self.agents: list[Agent] = []
        self.current: Agent | None = None
        self.luck = Luck.GOOD
        self.blind = 0
        """How often the table cannot be read."""
        self.deaf = Deaf()
        self.was_hindered = False
        """Whether the record store has ever failed, or the table could not be read."""
        self.on_its_way: list[Request] = []
        self.zombies: list[tuple[datetime, Sequence[Data]]] = []
        """What tasks of dead processes may still write, and until when."""
        self.sound = True
        self.carries = False
        """Whether runs copy deleted rows, with their deletes."""
        self._tokens = count(1)
        self._checked: tuple[object, int] = (None, 0)
        self._stops = 0
        STAGE.world = self

    # -- who is there -----------------------------------------------------------------------------

    @property
    def spark_catalog(self) -> Any:
        """Stands in for `Lake`."""
        return SimpleNamespace(catalog=self.name, recorded_as=self.name, table=lambda name: self.table())

    def _agent(self, host: str, store: int, work: Callable[[Any, Any], object]) -> Agent:
        agent = Agent(self, len(self.agents) + 1, host, lambda: work(self.spark_catalog, self.stores[store]))
        self.agents.append(agent)
        return agent

    def table(self) -> ModelTable:
        """The table, loaded once more."""
        return ModelTable(self.catalog, self.stop, self)

    def start(
        self, *groups: Sequence[str], host: str = "here", store: int = 0, commits: int = 1, split: bool = False
    ) -> Agent:
        """Pin, plan and begin."""
        plan = self._plan(groups, _policy(commits), split=split)
        return self._agent(
            host, store, lambda spark_catalog, records: runs.apply(spark_catalog, plan, records, Silent())
        )

    def resume(self, record: RunRecord, *, host: str = "here", store: int = 0) -> Agent:
        """Carry on with a run."""
        return self._agent(
            host, store, lambda spark_catalog, records: runs.resume(spark_catalog, record, records, Silent())
        )

    def clean_up(self, *, host: str = "here", store: int = 0) -> Agent:
        """Clean up after all runs."""
        return self._agent(
            host, store, lambda spark_catalog, records: cleanup.clean_up(spark_catalog, records, delete=True)
        )

    def take_back(self, record: RunRecord, *, host: str = "here", store: int = 0) -> Agent:
        """Go back to before a run."""
        return self._agent(
            host, store, lambda spark_catalog, records: aftercare.take_back(spark_catalog, record, records)
        )

    def runs(self, store: int = 0, *, open_only: bool = False) -> list[RunRecord]:
        """Newest first."""
        return list(self.stores[store].runs(catalog=self.name, open_only=open_only))

    def _plan(self, groups: Sequence[Sequence[str]], policy: Policy, *, split: bool) -> Plan:
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
                    cost=Cost(seconds=Estimate(likely=1.0)),
                    reason="",
                    predicted_files=1,
                    predicted_bytes=1,
                    delete_records=0,
                    carries=self.carries and files[0].spec_id != 0,
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
            predicted=Prediction(
                files_before=0,
                files_after=0,
                input_files=0,
                input_bytes=0,
                output_files=0,
                output_bytes=0,
                delete_records=0,
                cores=0,
            ),
            before=Before(files=0, rows=0, bytes=0),
            complete=True,
        )

    # -- what happens -----------------------------------------------------------------------------

    def go(
        self,
        agent: Agent,
        until: str = "end",
        luck: Luck = Luck.GOOD,
        *,
        blind: int = 0,
        deaf: Deaf | None = None,
    ) -> None:
        """Let a process go on until it comes to a stop of that name (`any`: the next one), or to its end.

        The luck is that of the first commit on the way; `blind`: so often the table cannot be read.
        """
        self.luck, self.blind, self.deaf = luck, blind, deaf or Deaf()
        if agent.watch is not None and self.now - agent.since > TASK_TIMEOUT:
            agent.watch.look()
        self._stops = 0
        self._step(agent, until)
        assert agent.ended or until in ("any", agent.at), f"{agent.owner} does not come to an end"

    def _step(self, agent: Agent, until: str = "any") -> None:
        self.current, agent.until = agent, until
        agent.step()
        self.current = None
        if agent.error is not None:
            self.sound = False
            raise agent.error
        self._look()

    def passes(self, agent: Agent) -> bool:
        """Whether a process goes on at once from where it is: the test wants it to, and all is well."""
        self._stops += 1
        if agent.until in ("any", agent.at) or self._stops > MOST_STOPS:
            return False
        try:
            self._look()
        except Violation:
            return False  # the test will see it, too
        return True

    def _look(self) -> None:
        """Whether all is well, if there is any news."""
        news = self.catalog.metadata, len(self.catalog.storage)
        if news[0] is not self._checked[0] or news[1] != self._checked[1]:
            self.check()
            self._checked = news

    def check(self) -> None:
        """Whether all is well."""
        SEEN["checks"] += 1
        try:
            self.others.check()
        except Violation:
            self.sound = False
            raise

    def check_alarms(self) -> None:
        """Whether icepact itself took a commit for broken: none is."""
        for store in STAGE.stores:
            alarms = [f.reason for f in store.failures(self.catalog.uuid) if f.signature == BROKEN]
            if alarms:
                raise Violation(f"an alarm: {alarms[0]}")

    def kill(self, agent: Agent) -> None:
        """The process dies where it is; if it was writing, its tasks may not know yet."""
        if not agent.ended:
            if agent.at == "write":
                self.zombies.append((agent.since + TASK_TIMEOUT, agent.what))
            agent.killed = True
            self._step(agent)
            assert agent.ended

    def stop(self, at: str, what: Sequence[Any], *, stops: bool = True) -> timedelta:
        """Called by icepact's code, before something that others can see."""
        agent = self.current
        if agent is None:  # the test itself
            return timedelta()
        if agent.killed:
            raise Killed
        waited = agent.stop(at, what) if stops else timedelta()
        if at == "refresh" and self.blind:
            self.blind -= 1
            self.was_hindered = True
            raise Refusal("RESTException", "the table cannot be read")
        return waited

    def is_deaf(self) -> bool:
        """Whether the record store fails this time."""
        if self.deaf.after:
            self.deaf.after -= 1
            return False
        self.deaf.calls -= 1
        if fails := self.deaf.calls >= 0:
            self.was_hindered = True
            SEEN[f"record store: {'no answer' if self.deaf.heard else 'not reached'}"] += 1
        return fails

    # -- commits ----------------------------------------------------------------------------------

    def load(self, number: int) -> Metadata:
        """Before each try of a commit."""
        self.stop("send" if number == 1 else "again", ())
        agent = self._sender()
        agent.away = agent.away and number > 1
        if agent.away:
            raise Refusal("ServiceUnavailableException", "the catalog is not there")
        return self.catalog.metadata

    def write(self, manifests: Sequence[str]) -> None:
        """The manifests of a commit."""
        full = self.luck is Luck.FULL
        self.catalog.write(*(manifests[:1] if full else manifests))
        if full:
            self.luck = Luck.GOOD
            SEEN[f"commit: {Luck.FULL}"] += 1
            where = "org.apache.iceberg.SnapshotProducer.apply(SnapshotProducer.java:282)"
            raise Refusal("RuntimeIOException", f"No space left on device at {where}")

    def swap(self, tried: Tried) -> None:
        """One try of a commit arrives at the catalog, or does not, and is answered, or is not."""
        self.stop("swap", ())
        agent = self._sender()
        luck, self.luck = self.luck, Luck.GOOD
        SEEN[f"commit: {luck}"] += 1
        match luck:
            case Luck.GOOD | Luck.LOST | Luck.REPEATED | Luck.AWAY | Luck.NOT_ANY_MORE | Luck.HUNG:
                self._land(tried)
                agent.away = luck is Luck.AWAY
            case Luck.SLOW | Luck.STUCK | Luck.STUCK_AND_NOT_ANY_MORE:
                self._send(tried, agent, waits=luck is Luck.SLOW)
            case Luck.BUSY:
                self.luck = luck if tried.number <= RETRIES else Luck.GOOD
            case Luck.REPEATED_LAST if tried.number <= RETRIES:
                self.luck = luck
            case Luck.REPEATED_LAST:
                self._land(tried)
        if luck in (Luck.HUNG, Luck.HUNG_BEFORE):
            self.stop("answer", ())
        if luck in _TOLD:
            raise Refusal(_TOLD[luck], luck)

    def _sender(self) -> Agent:
        assert self.current is not None
        return self.current

    def _send(self, tried: Tried, agent: Agent, *, waits: bool) -> None:
        request = Request(tried=tried, sender=agent, waits=waits, deadline=agent.attempted_at + COMMIT_WINDOW)
        self.on_its_way.append(request)
        if waits:
            self.stop("answer", ())
            self.deliver(request)
            if request.error is not None:
                raise request.error

    def _land(self, tried: Tried) -> None:
        self.catalog.swap(tried.base, tried.snapshot)
        self.others.landed(tried.snapshot)
        late = any(file.number < tried.snapshot.number for file in tried.snapshot.added)
        SEEN["landed late" if late else "landed strictly"] += 1
        SEEN["landed with deletes"] += bool(tried.snapshot.news)

    def deliver(self, request: Request) -> None:
        """A commit arrives at the catalog, unless that is too late or it did already."""
        if request not in self.on_its_way:
            return
        self.on_its_way.remove(request)
        if self.now <= request.deadline or (request.waits and not request.sender.ended):
            try:
                self._land(request.tried)
            except Refusal as error:
                request.error = error

    @property
    def overdue(self) -> bool:
        """Whether a commit was validated and is under way for longer than any should be."""
        slow = [a for a in self.agents if not a.ended and a.at in ("swap", "answer")]
        return any(self.now > a.attempted_at + COMMIT_WINDOW for a in slow) or any(
            self.now > request.deadline for request in self.on_its_way
        )

    @property
    def committing(self) -> bool:
        """Whether a commit is under way."""
        return bool(self.on_its_way) or any(not a.ended and a.at in UNDER_WAY for a in self.agents)

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
        self.check_alarms()
        for store in range(len(self.stores)):
            SEEN.update(f"run: {record.status}" for record in self.runs(store))
            still = [(record.run_id, record.status.value) for record in self.runs(store, open_only=True)]
            if still:
                raise Violation(f"still open: {still}")
        kept = {path for s in self.catalog.metadata.snapshots.values() for path in s.paths}
        mine = model_table.FOLDERS, model_table.MANIFESTS
        left = sorted(path for path in self.catalog.storage.keys() - kept if path.startswith(mine))
        if left and not self.was_hindered:  # what was not recorded of a file cannot be known later
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
        now: datetime = STAGE.world.now
        return now


def this_process() -> Owner:
    """Whoever has its turn."""
    agent = STAGE.world.current
    return agent.owner if agent else Owner(host="the test", pid=0, born=0)


def sleep(seconds: float) -> None:
    """Others have their turn."""
    STAGE.world.stop("sleep", ())


def _judged(
    view: HeadView, groups: Sequence[ProvenGroup], *given: Any, **named: Any
) -> list[tuple[ProvenGroup, Verdict]]:
    verdicts: list[tuple[ProvenGroup, Verdict]] = REAL_JUDGE_GROUPS(view, groups, *given, **named)
    SEEN.update(f"judged: {verdict.answer}" for _, verdict in verdicts)
    return verdicts


def _roll_back(table: ModelTable, branch: str, *, bad: int, good: int) -> bool:
    if table.catalog.metadata.head_id != bad:
        return False
    STAGE.world.others.point(good)
    table.refresh()
    return True


REAL_JUDGE_GROUPS: Any = protocol.judge_groups
REAL_DANGLING: Any = protocol._dangling


@contextmanager
def record_stores() -> Iterator[None]:
    """Two record stores for all worlds: each world has a catalog of its own in them."""
    new_record_stores()
    yield
    close_record_stores()


def new_record_stores() -> None:
    """Empty ones: they get slower with every world."""
    close_record_stores()
    STAGE.stores = [KvStore.in_memory(clock=lambda: STAGE.world.now) for _ in range(2)]


def close_record_stores() -> None:
    """No world is played any more."""
    for store in STAGE.stores:
        store.close()
    STAGE.stores = ()


def set_the_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """icepact's own code, with the model in place of Spark, Iceberg, storage, clock and processes."""
    tokens = SimpleNamespace(token_hex=lambda _: f"{STAGE.world.number:06x}{next(STAGE.world._tokens):04x}")
    clock = SimpleNamespace(monotonic=lambda: (STAGE.world.now - NOON).total_seconds(), sleep=sleep)

    def stand_ins(*names: str) -> dict[str, Any]:
        return {name: getattr(model_table, name) for name in names}

    here = {"datetime": ModelTime, "this_process": this_process}
    for module, names in {
        protocol: {
            **{"judge_groups": _judged, "this_process": this_process},
            **stand_ins("manifest_prefix_of", "delete_files", "manifests_of", "UnusedFiles"),
        },
        after: {"roll_back": _roll_back},
        settle: stand_ins("referenced"),
        runs: {
            **here,
            **{"secrets": tokens, "time": clock, "Watch": Beating},
            **stand_ins("referenced", "delete_files", "run_folder", "missing_files"),
        },
        outcomes: {"time": clock},
        cleanup: {
            **here,
            **{"secrets": tokens, "unfinished_uploads": lambda table, run_id: 0},
            **stand_ins("referenced", "listed_files", "delete_files", "run_folder"),
        },
        aftercare: {"roll_back": _roll_back, **stand_ins("missing_files")},
        rolled_back: {"this_process": this_process},
        rounds: {
            **{"Staging": ModelStaging, "execute": model_table.execute, "LateDeletes": ModelLateDeletes},
            **{"commit": partial(protocol.commit, sleep=sleep), "datetime": ModelTime},
        },
        leftovers: stand_ins("listed_files", "delete_files", "missing_files"),
        traces: {
            **{"_referenced": model_table.referenced_manifests, **stand_ins("stored_files")},
            "_metadata": lambda table, stored, lost: [],  # of table metadata the model knows only the newest
        },
        replace: {
            "ensure_callback_server_started": lambda _: None,
            "deletes_to_remove": model_table.deletes_to_remove,
            "_add_copy": model_table.add_copy,
        },
        process: {"this_process": this_process, "has_ended": lambda pid, born: STAGE.world.born(pid) != born},
    }.items():
        for name, stand_in in names.items():
            monkeypatch.setattr(module, name, stand_in)
