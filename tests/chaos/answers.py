"""Catalogs whose answers are lost or false: what they say is not what they did.

The same trials with three catalogs: REST behind a proxy that answers wrongly once the server has committed, PostgreSQL
through JDBC behind a proxy that cuts the line, and SQLite through JDBC with a driver that claims that a statement
failed. Iceberg's own clients repeat some requests after that, and then find that their own commit is in the way. All
the while others may append, through a catalog of their own that answers truly.
"""

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from icepact import Compactor
from tests.chaos.faults import COMMIT, tried
from tests.chaos.judge import RECOVERIES, Bucket, Files, LocalFiles, Newcomers
from tests.chaos.messes import DAYS, TRIALS_PER_TABLE, MessyTable, row_of
from tests.chaos.soak import ERRORS
from tests.chaos.streaming import Put, in_bucket, on_disk
from tests.support.compactors import short_compactor
from tests.support.servers.faulty import Asked, Fault, Lie, Proxy, faulty
from tests.support.servers.libraries import postgresql_driver
from tests.support.servers.lossy import NOT_REPEATED, PREFIX, REPEATED, Lossy
from tests.support.servers.postgres import Postgres, postgres
from tests.support.servers.rest import RestCatalog, rest_catalog
from tests.support.servers.s3 import s3_server
from tests.support.servers.trial import configuration
from tests.support.servers.wire import Cut, Wire, wire

REST, POSTGRES, SQLITE = "answers-rest", "answers-postgres", "answers-sqlite"
CATALOGS = ("sqlite", "postgres", "rest")
LONGEST_DELAY = 5.0
"""Seconds."""
_FOREIGN = 10**9
"""Ids of rows that others append begin here."""
_MOST_COMMITS, _MOST_OTHERS = 16, 120
"""Requests of a trial that a script tells of; all later ones go well."""
Way = TypeVar("Way")


class Losses(Generic[Way]):
    """What happens to the requests of one run, decided before it begins."""

    def __init__(self, of_commits: Sequence[Way | None], append: Callable[[], object]) -> None:
        self.commits = self.others = 0
        """Requests so far."""
        self.lost = 0
        """Answers to commits that did not come, or were not true."""
        self._append = append
        self._lock = threading.Lock()
        self._of_commits = of_commits
        self._of_others: Sequence[Way | None] = ()
        self._early = False
        """Whether other answers are lost before the first commit, too."""
        self._rivals: Mapping[str, Collection[int]] = {"before": (), "after": ()}
        """Commits before and after which somebody appends."""
        self._delays: Mapping[tuple[str, bool, int], float] = {}
        """Seconds, before or after a commit or another request."""

    @classmethod
    def by_lot(
        cls, dice: random.Random, ways: Sequence[Way], append: Callable[[], object], *, commits: int
    ) -> "Losses[Way]":
        """Of a run that makes so many commits if all goes well."""
        self = cls(_script(dice, ways, commits), append)
        rate = dice.choice([0.0, 0.0, 0.05, 0.2])
        self._of_others = [dice.choice(ways) if dice.random() < rate else None for _ in range(_MOST_OTHERS)]
        self._early = dice.random() < 0.2
        busy = dice.random() < 0.4
        self._rivals = {when: {n for n in range(8) if busy and dice.random() < 0.4} for when in ("before", "after")}
        late = dice.random() < 0.1
        self._delays = {
            (dice.choice(["before", "after"]), dice.random() < 0.5, dice.randrange(3)): dice.uniform(0, LONGEST_DELAY)
            for _ in range(late)
        }
        return self

    def before(self, *, commit: bool) -> Way | None:
        """A request has come; says how its answer will be lost."""
        with self._lock:
            number = self.commits if commit else self.others
            script = self._of_commits if commit else self._of_others
            way = script[number] if number < len(script) else None
            if not commit and not self.commits and not self._early:
                return None
            if commit:
                self.commits += 1
                self.lost += way is not None
            else:
                self.others += 1
        self._meanwhile("before", number, commit=commit)
        return way

    def after(self, *, commit: bool) -> None:
        """The newest request has been carried out, and nobody knows yet."""
        self._meanwhile("after", (self.commits if commit else self.others) - 1, commit=commit)

    def _meanwhile(self, when: str, number: int, *, commit: bool) -> None:
        time.sleep(self._delays.get((when, commit, number), 0))
        if commit and number in self._rivals[when]:
            self._append()


def _script(dice: random.Random, ways: Sequence[Way], commits: int) -> list[Way | None]:
    """One answer is lost, or several in a row, in the same way or not, or any; of so many commits the first may go
    well."""
    well: list[Way | None] = [None] * dice.randrange(commits)
    match dice.choice(["one", "one", "some alike", "some", "any"]):
        case "one":
            return [*well, dice.choice(ways)]
        case "some alike":
            return [*well, *[dice.choice(ways)] * dice.randint(2, 7)]
        case "some":
            return [*well, *dice.choices(ways, k=dice.randint(2, 7))]
    return [dice.choice(ways) if dice.random() < 0.5 else None for _ in range(_MOST_COMMITS)]


# -- the catalogs ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """How an SQLite statement is lost."""

    state: str
    """What is said of it."""
    when: str = "after"


RETRIED = (Lie(status=503, retry_after=0), Lie(status=503, retry_after=1), Lie(status=429, retry_after=1))
"""After these Iceberg's client sends the same once more."""
REST_WAYS: Sequence[Fault | Lie] = (
    *RETRIED,
    *RETRIED,
    Lie(status=429),
    *(Lie(status=status) for status in (500, 502, 503, 504)),
    Lie(status=409),
    *(Lie(status=status) for status in (400, 401, 403, 404)),
    *(Lie(status=503, retry_after=1, late=late) for late in (0.5, 2.5)),
    *(Lie(status=504, late=late) for late in (0.5, 4.5)),
    *(Fault.LOSE, Fault.LOSE, Fault.CUT, Fault.RESET, Fault.DROP, Fault.FAIL),
)
POSTGRES_WAYS = (*[Cut.AFTER] * 4, Cut.MIDDLE, Cut.BEFORE, Cut.AHEAD)
SQLITE_WAYS = (
    *(Lost(state=state) for state in REPEATED),
    *(Lost(state="08006") for _ in range(4)),
    *(Lost(state=state) for state in NOT_REPEATED),
    Lost(state="08006", when="before"),
)


class OfRest:
    """A proxy for HTTP as the place where answers are lost."""

    kind = REST
    ways: Sequence[Any] = REST_WAYS
    worst = RETRIED[1]

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy

    def begin(self, losses: Losses[Fault | Lie]) -> None:
        """From now on."""
        self._proxy.rule = lambda asked: losses.before(commit=_is_commit(asked))
        self._proxy.answered = lambda asked, _: losses.after(commit=_is_commit(asked))

    def end(self) -> Counter[str]:
        """From now on all goes well; what did not."""
        self._proxy.calm()
        found = Counter({fault.value: count for fault, count in self._proxy.faults.items()})
        self._proxy.faults.clear()
        return found


def _is_commit(asked: Asked) -> bool:
    return asked.method == "POST" and COMMIT.fullmatch(asked.path) is not None


class OfPostgres:
    """A proxy for PostgreSQL."""

    kind = POSTGRES
    ways: Sequence[Any] = POSTGRES_WAYS
    worst = Cut.AFTER

    def __init__(self, proxy: Wire) -> None:
        self._proxy = proxy

    def begin(self, losses: Losses[Cut]) -> None:
        """From now on."""
        self._proxy.rule = lambda statement: losses.before(commit=_is_update(statement))
        self._proxy.answered = lambda statement: losses.after(commit=_is_update(statement))

    def end(self) -> Counter[str]:
        """From now on all goes well; what did not."""
        self._proxy.calm()
        found = Counter({cut.value: count for cut, count in self._proxy.faults.items()})
        self._proxy.faults.clear()
        return found


class OfSqlite:
    """A driver for SQLite."""

    kind = SQLITE
    ways: Sequence[Any] = SQLITE_WAYS
    worst = Lost(state="08006")

    def __init__(self, driver: Lossy) -> None:
        self._driver = driver

    def begin(self, losses: Losses[Lost]) -> None:
        """From now on."""
        pending: dict[str, Lost | None] = {}

        def rule(when: str, statement: str) -> str | None:
            commit = _is_update(statement)
            if when == "before":
                pending[statement] = losses.before(commit=commit)
            else:
                losses.after(commit=commit)
            way = pending[statement]
            return way.state if way is not None and way.when == when else None

        self._driver.rule = rule

    def end(self) -> Counter[str]:
        """From now on all goes well; what did not."""
        self._driver.calm()
        found = self._driver.faults.copy()
        self._driver.faults.clear()
        return found


def _is_update(statement: str) -> bool:
    return statement.startswith("UPDATE iceberg_tables")


# -- trials ---------------------------------------------------------------------------------------


class Answers:
    """Trials with one catalog."""

    def __init__(
        self, place: OfRest | OfPostgres | OfSqlite, compactor: Compactor, direct: Compactor, files: Files, put: Put
    ) -> None:
        self.kind = place.kind
        self._place: Any = place
        self._compactor = compactor
        self._direct = direct
        """Sees the same tables, and gets true answers."""
        self._files = files
        self._put = put
        self._tables: dict[int, MessyTable] = {}
        for one in (compactor, direct):
            one.spark.conf.set("spark.sql.shuffle.partitions", "2")
        self._namespace = self.kind.replace("-", "_")
        direct.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self._namespace}")

    def trial(self, number: int, *, seed: int, worst: bool = False) -> dict[str, Any]:
        """One run whose catalog loses answers; an entry for the ledger. With `worst` it is the first commit's, in the
        way in which Iceberg's client sends it again, and nothing else happens."""
        dice = random.Random(f"{seed}/{self.kind}/{number}")
        version = 2 + number % 2
        retries = None if worst else dice.choice([None, None, "0", "1"])
        table = self._table(version, f"s{seed}n{number}", retries)
        table.mess(dice)
        newcomers = Newcomers(first=_FOREIGN + 1000 * table.messes)
        numbers = itertools.count(newcomers.first)
        commits = dice.randint(1, DAYS)
        options: dict[str, Any] = {"target_file_size": "64MB", "rewrite_all": True, "max_commits": commits}

        def append() -> None:
            self._append(table, next(numbers), newcomers)

        losses: Losses[Any] = (
            Losses([self._place.worst], append)
            if worst
            else Losses.by_lot(dice, self._place.ways, append, commits=commits)
        )
        faults: Counter[str] = Counter()
        swept = not worst and dice.random() < 0.3

        def end() -> None:
            if swept:  # at once: what was sent may still be on its way
                with suppress(*ERRORS):
                    self._compactor.cleanup(table.name, delete=True)
            faults.update(self._place.end())

        told = tried(
            self._compactor,
            table.name,
            options,
            dice.choice(RECOVERIES),
            self._files,
            lambda: self._place.begin(losses),
            end,
            judging=self._direct,
            newcomers=newcomers,
        )
        if not told["clean"]:
            self._tables.pop(version)  # what comes next must not suffer from it
        return {
            "kind": self.kind,
            "seed": seed,
            "number": number,
            "hit": losses.lost > 0,
            "version": version,
            "requests": {"commits": losses.commits, "others": losses.others},
            "appends": len(newcomers.rows),
            "swept": swept,
            "faults": dict(faults),
            "options": options,
            **told,
        }

    def _table(self, version: int, name: str, retries: str | None) -> MessyTable:
        """One that has not seen too much yet. Iceberg tries a commit five times, if a table does not say otherwise."""
        found = self._tables.get(version)
        if found is None or found.messes == TRIALS_PER_TABLE:
            properties = {} if retries is None else {"commit.retry.num-retries": retries}
            name = f"{self._namespace}.{name}"
            found = self._tables[version] = MessyTable(self._direct.spark, self._put, name, version, properties)
        return found

    def _append(self, table: MessyTable, number: int, newcomers: Newcomers) -> None:
        """Somebody else commits one row."""
        row = row_of(number, number % DAYS)
        table.stream(random.Random(number)).append([(f"day={number % DAYS}", [row])])
        newcomers.rows[number] = tuple(bytearray(v) if isinstance(v, bytes) else v for v in row.values())


@contextmanager
def rest_answers(folder: Path, rest: RestCatalog) -> Iterator[Answers]:
    """With a REST catalog and its S3 server."""
    with faulty(rest.uri) as proxy:
        compactor, direct = _compactors(folder, {**rest.properties, "uri": proxy.endpoint}, rest.properties)
        yield Answers(OfRest(proxy), compactor, direct, Bucket(rest.s3), in_bucket(rest.s3))


@contextmanager
def postgres_answers(folder: Path, server: Postgres, conf: Mapping[str, str]) -> Iterator[Answers]:
    """With PostgreSQL; its driver must be on the class path."""

    def catalog(port: int) -> dict[str, str]:
        uri = server.jdbc_uri.replace(f":{server.port}/", f":{port}/")
        return {
            "type": "jdbc",
            "uri": f"{uri}?sslmode=disable",
            "jdbc.user": server.user,
            "jdbc.password": server.password,
            "jdbc.schema-version": "V1",
            "warehouse": str(folder / "warehouse"),
        }

    with wire(server.port) as proxy:
        compactor, direct = _compactors(folder, catalog(proxy.port), catalog(server.port), conf)
        yield Answers(OfPostgres(proxy), compactor, direct, LocalFiles(), on_disk)


def sqlite_answers(folder: Path, conf: Mapping[str, str], classes: Path) -> Answers:
    """With SQLite; the folder of classes must be on the class path."""
    address = f"sqlite:{folder / 'catalog.db'}"

    def catalog(prefix: str) -> dict[str, str]:
        warehouse = str(folder / "warehouse")
        return {"type": "jdbc", "uri": prefix + address, "warehouse": warehouse, "jdbc.schema-version": "V1"}

    compactor, direct = _compactors(folder, catalog(PREFIX), catalog("jdbc:"), conf)
    return Answers(OfSqlite(Lossy(direct.spark, classes)), compactor, direct, LocalFiles(), on_disk)


def _compactors(
    folder: Path, faulty: Mapping[str, str], true: Mapping[str, str], conf: Mapping[str, str] | None = None
) -> tuple[Compactor, Compactor]:
    """The one whose answers are lost, and the one that sees what is so; with one history of runs."""
    state = folder / "state"
    of_faulty, of_true = (
        short_compactor(config=configuration(folder / name, catalog, conf=conf, state=state))
        for name, catalog in (("faulty", faulty), ("true", true))
    )
    return of_faulty, of_true


@contextmanager
def application(folder: Path, catalogs: Collection[str] = CATALOGS) -> Iterator[list[Answers]]:
    """Servers, and a Spark application that knows their drivers; Spark must not run yet in this process."""
    classes = folder / "classes"
    classes.mkdir(parents=True)
    conf = {"spark.driver.extraClassPath": f"{postgresql_driver()}:{classes}"}
    with ExitStack() as running:
        places = []
        if "sqlite" in catalogs:
            places.append(sqlite_answers(folder / "sqlite", conf, classes))
        if "postgres" in catalogs:
            server = running.enter_context(postgres(folder))
            places.append(running.enter_context(postgres_answers(folder / "on-postgres", server, conf)))
        if "rest" in catalogs:
            s3 = running.enter_context(s3_server(folder))
            rest = running.enter_context(rest_catalog(folder, s3))
            places.append(running.enter_context(rest_answers(folder / "on-rest", rest)))
        yield places
