"""A worker on real tables: every operation, and whatever keeps a job from ending at once."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.app import Application
from icepact.iceberg.commit.run_files import run_folder
from icepact.maintain.runs import hold
from icepact.model.errors import StoreUnusable
from icepact.model.job import Job, JobRequest, JobStatus, Operation
from icepact.model.limits import Limit, Resource
from icepact.model.status import Status
from icepact.model.tenant import Quota
from icepact.policy.options import Options
from icepact.record import watch
from icepact.record.pauses import FAILURES, job_failed
from icepact.record.store import RecordStore
from icepact.schedule import worker as workers
from icepact.schedule.answers import kept_plan, kept_ranking, known_health, known_tables
from icepact.schedule.holding import Holding
from icepact.schedule.jobs import Jobs
from icepact.schedule.queue import next_job
from icepact.schedule.tenants import Tenants
from icepact.schedule.worker import Ended, Worker, WorkerSettings
from tests.support.jobs import THEM, make_job
from tests.support.oracle import seen
from tests.support.records import run_record

FILES = 6


@pytest.fixture
def application(compactor: Compactor) -> Application:
    """What carries jobs out."""
    return compactor.application


@pytest.fixture
def store(application: Application) -> RecordStore:
    """Where jobs wait."""
    return application.store


@pytest.fixture
def jobs(application: Application, store: RecordStore) -> Jobs:
    """The jobs of the catalog."""
    return Jobs(store, application.catalog.recorded_as)


@pytest.fixture
def table(spark: SparkSession, namespace: str) -> str:
    """Small files."""
    name = f"{namespace}.t"
    spark.sql(
        f"CREATE TABLE {name} (id bigint, at timestamp) USING iceberg"
        " TBLPROPERTIES ('format-version' = '2', 'history.expire.max-snapshot-age-ms' = '1')"
    )
    append_small(spark, name)
    return name


def append_small(spark: SparkSession, table: str) -> None:
    """Some small files."""
    for batch in range(FILES):
        rows = spark.range(batch * 10, batch * 10 + 10, 1, 1).selectExpr("id", "timestamp '2026-01-01 10:00:00' AS at")
        rows.writeTo(table).append()


Do = Callable[..., Job]


@pytest.fixture
def do(application: Application, store: RecordStore, jobs: Jobs) -> Do:
    """Have one job done, or tried."""

    def one(operation: Operation | None, table: str | None = None, *, plan: bytes = b"", **given: Any) -> Job:
        job_id = None
        if operation is not None:
            job_id = jobs.submit(JobRequest(operation=operation, table=table, **given), plan=plan).job_id
        assert Worker(application, store, settings=WorkerSettings(max_jobs=1)).run() is Ended.WORKED
        return jobs.get(job_id) if job_id else jobs.list(limit=1, results=True)[0]

    return one


def commits(spark: SparkSession, table: str) -> int:
    """How many there are."""
    return spark.sql(f"SELECT * FROM {table}.snapshots").count()


# -- every operation ------------------------------------------------------------------------------

OPERATIONS: dict[Operation, tuple[dict[str, Any], str, Any]] = {
    Operation.COMPACT: ({"options": {"min_input_files": 2}}, "status", "committed"),
    Operation.MAINTAIN: ({"options": {"housekeeping": "compact"}}, "well", True),
    Operation.EXPIRE: ({"options": {"expire_retain_last": 2}}, "status", "committed"),
    Operation.ORPHANS: ({}, "operation", "orphans"),
    Operation.MANIFESTS: ({}, "operation", "manifests"),
    Operation.DELETES: ({}, "status", "nothing-to-do"),
    Operation.TTL: (
        {"options": {"ttl_column": "at", "ttl_keep": "9000d", "ttl_level": "file"}},
        *("status", "nothing-to-do"),
    ),
    Operation.TAGS: ({"options": {"tag_period": "daily", "tag_max_delay": "9000d"}}, "operation", "tags"),
    Operation.STATISTICS: ({"columns": ("id",)}, "status", "committed"),
    Operation.HEALTH: ({}, "data_files", FILES),
    Operation.PLAN: ({"options": {"min_input_files": 2}}, "operation", "compact"),
    Operation.POLICY: ({"options": {"max_files": 3}}, "max_files", {"value": 3, "source": "request"}),
    Operation.UNBLOCK: ({}, "forgotten", 0),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_is_carried_out_and_answered(
    do: Do, spark: SparkSession, table: str, operation: Operation
) -> None:
    given, name, value = OPERATIONS[operation]
    before = seen(spark, table)
    job = do(operation, table, **given)
    assert (job.status, job.error) == (JobStatus.SUCCEEDED, None)
    assert job.result is not None
    assert job.result[name] == value
    assert json.loads(json.dumps(job.result)) == job.result
    assert seen(spark, table) == before
    if not operation.leaves_tables and operation is not Operation.MAINTAIN:
        assert job.run_id in (job.result["run_id"], None)


def test_tables_are_listed_and_remembered(do: Do, application: Application, store: RecordStore, table: str) -> None:
    job = do(Operation.TABLES)
    assert job.result is not None
    assert table in job.result["tables"]
    known = known_tables(store, application.catalog.recorded_as)
    assert known is not None
    assert known[0] == job.result["tables"]


def test_tables_are_ranked_and_the_ranking_is_kept(do: Do, store: RecordStore, table: str) -> None:
    job = do(Operation.FLEET, pattern=table, options={"max_files": 100})
    assert (job.status, job.error) == (JobStatus.SUCCEEDED, None)
    [entry] = kept_ranking(store, job.job_id)["tables"]
    assert job.result is not None
    assert job.result["tables"] == [entry]
    assert (entry["table"], entry["data_files"]) == (table, FILES)


def test_a_ranking_is_of_tables_that_exist_for_its_tenant(
    do: Do, application: Application, store: RecordStore, jobs: Jobs, table: str
) -> None:
    tenants = Tenants(store, catalog=application.catalog.name)
    tenants.create("other", tables=["elsewhere.*"])
    job = jobs.submit(JobRequest(operation=Operation.FLEET), tenant="other")
    do(None)
    tenants.remove("other")
    result = jobs.get(job.job_id).result
    assert result is not None
    assert (result["tables"], result["failed"], result["total"]["tables"]) == ([], [], 0)


def test_a_compaction_keeps_to_the_budget_that_is_given_besides(do: Do, table: str) -> None:
    budget = (Limit(resource=Resource.FILES, amount=1, name="max_files 1 for all tables"),)
    job = do(Operation.COMPACT, table, options={"min_input_files": 2}, budget=budget)
    assert job.result is not None
    assert (job.result["status"], job.result["complete"]) == ("nothing-to-do", False)
    assert "max_files 1 for all tables" in job.result["reason"]


@pytest.mark.parametrize("operation", [Operation.PLAN, Operation.COMPACT, Operation.EXPIRE])
def test_a_plan_is_kept_and_applied(
    do: Do, spark: SparkSession, store: RecordStore, table: str, operation: Operation
) -> None:
    given = {"options": {} if operation is Operation.EXPIRE else {"min_input_files": 2}}
    dry = {} if operation is Operation.PLAN else {"dry_run": True}
    before = commits(spark, table)
    planned = do(operation, table, **given, **dry)
    assert commits(spark, table) == before
    applied = do(Operation.APPLY, plan=kept_plan(store, planned.job_id))
    assert applied.request.table == table
    assert applied.result is not None
    assert applied.result["status"] == "committed"
    assert commits(spark, table) == (1 if operation is Operation.EXPIRE else before + 1)
    assert applied.progress.step == "cleaned"


def test_health_is_remembered_when_it_was_asked_and_after_a_change(
    do: Do, application: Application, store: RecordStore, jobs: Jobs, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = application.catalog.recorded_as
    do(Operation.HEALTH, table, options={"min_file_size": "1MB"})
    assert known_health(store, catalog, table) is None  # seen by other options than those that hold
    do(Operation.HEALTH, table)
    known = known_health(store, catalog, table)
    assert known is not None
    assert known.health["data_files"] == FILES
    monkeypatch.setattr(workers, "_QUIET", 0.0)
    worker = Worker(application, store)
    thread = threading.Thread(target=worker.run)
    thread.start()
    job = jobs.submit(JobRequest(operation=Operation.COMPACT, table=table, options={"min_input_files": 2}))
    assert jobs.wait(job.job_id, 60).status is JobStatus.SUCCEEDED
    until = time.monotonic() + 30
    while (now := known_health(store, catalog, table)) is None or now.snapshot_id == known.snapshot_id:
        assert time.monotonic() < until
        time.sleep(0.02)
    assert now.health["data_files"] == 1
    worker.stop()
    thread.join(30)
    assert not thread.is_alive()


# -- what does not end well -----------------------------------------------------------------------


@pytest.fixture
def tenants(application: Application, store: RecordStore, namespace: str) -> Iterator[Tenants]:
    """One without a quota, called like the namespace, since what another test spent for it would count."""
    tenants = Tenants(store, catalog=application.catalog.name)
    tenants.create(namespace, tables=[f"{namespace}.*"])
    yield tenants
    tenants.remove(namespace)


@pytest.mark.parametrize(
    ("operation", "options"), [(Operation.COMPACT, {}), (Operation.MAINTAIN, {"housekeeping": "compact"})]
)
def test_a_plan_that_does_not_fit_into_what_is_left_waits(
    do: Do,
    store: RecordStore,
    jobs: Jobs,
    tenants: Tenants,
    spark: SparkSession,
    namespace: str,
    table: str,
    operation: Operation,
    options: dict[str, Any],
) -> None:
    """A job is taken as long as anything is left of its tenant's quota."""
    request = JobRequest(operation=operation, table=table, options={"min_input_files": 2, **options})
    first = jobs.submit(request, tenant=namespace)
    do(None)
    assert jobs.get(first.job_id).status is JobStatus.SUCCEEDED
    [spent] = [run.outcome.groups[0].bytes_in for run in store.runs(catalog=first.catalog, table=table) if run.outcome]
    tenants.change(namespace, quota=Quota(bytes_per_hour=spent * 3 // 2))
    append_small(spark, table)
    before = commits(spark, table)
    second = jobs.submit(request, tenant=namespace)
    do(None)
    waiting = jobs.get(second.job_id)
    assert (waiting.status, waiting.failures, waiting.error_type) == (JobStatus.QUEUED, 0, "QuotaUsed")
    assert commits(spark, table) == before
    store.ask_to_cancel_job(waiting.job_id)


def test_a_job_on_a_table_that_is_not_there_fails_at_once(do: Do, namespace: str) -> None:
    job = do(Operation.COMPACT, f"{namespace}.nothing")
    assert (job.status, job.error_type, job.attempts) == (JobStatus.FAILED, "TableNotFound", 1)
    assert f"{namespace}.nothing" in str(job.error)


def test_a_busy_table_is_no_failure(do: Do, application: Application, store: RecordStore, table: str) -> None:
    lease = hold(store, application.spark_catalog.table(table), "of-somebody-else")
    try:
        job = do(Operation.COMPACT, table, options={"min_input_files": 2})
    finally:
        store.release(lease)
    assert (job.status, job.failures, job.error_type) == (JobStatus.QUEUED, 0, "TableBusy")
    assert job.due_at > job.submitted_at
    store.ask_to_cancel_job(job.job_id)


def test_a_table_on_which_jobs_fail_is_left_alone(
    do: Do, application: Application, store: RecordStore, table: str
) -> None:
    catalog = application.catalog.recorded_as
    for _ in range(FAILURES):
        job_failed(store, catalog, table, "no such bucket", store.now())
    waiting = do(Operation.COMPACT, table, options={"min_input_files": 2})
    assert (waiting.status, waiting.failures) == (JobStatus.QUEUED, 0)
    assert "paused until" in str(waiting.error)
    assert waiting.due_at - store.now() > timedelta(minutes=4)
    store.ask_to_cancel_job(waiting.job_id)
    assert do(Operation.HEALTH, table).status is JobStatus.SUCCEEDED
    application.unblock(table)
    assert do(Operation.COMPACT, table, options={"min_input_files": 2}).status is JobStatus.SUCCEEDED


def test_a_job_whose_deadline_has_passed_is_not_begun(
    do: Do, application: Application, store: RecordStore, spark: SparkSession, table: str
) -> None:
    before = commits(spark, table)
    request = JobRequest(operation=Operation.COMPACT, table=table)
    late = make_job(
        "20260101000000000000-late",
        request,
        catalog=application.catalog.recorded_as,
        deadline=datetime(2026, 1, 2, tzinfo=UTC),
    )
    store.submit_job(late)
    do(None)
    job = store.job(late.job_id)
    assert job is not None
    assert (job.status, job.error) == (JobStatus.FAILED, "its deadline passed before it was begun")
    assert commits(spark, table) == before


def during(step: str, act: Callable[[Holding], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have something happen while a run is at a step, after which the run is to stop; it hears of that at once."""
    heard = threading.Event()
    original, look = Holding.step, watch.Watch.look

    def at(self: Holding, name: str) -> None:
        original(self, name)
        if name == step:
            act(self)
            self.beat()
            assert heard.wait(30)

    def looking(self: watch.Watch) -> None:
        look(self)
        if self._why is not None:
            heard.set()

    monkeypatch.setattr(watch, "_LONGEST_BEAT", 0.02)
    monkeypatch.setattr(watch.Watch, "look", looking)
    monkeypatch.setattr(Holding, "step", at)


@pytest.mark.parametrize("asked", ["job", "run"])
def test_a_run_is_cancelled_with_its_job_and_can_be_done_later(
    do: Do,
    jobs: Jobs,
    application: Application,
    spark: SparkSession,
    table: str,
    asked: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whichever of them is cancelled."""
    before = commits(spark, table)

    def cancel(holding: Holding) -> object:
        return jobs.cancel(holding.job.job_id) if asked == "job" else application.cancel(holding.run_id or "")

    with monkeypatch.context() as patch:
        during("staged", cancel, patch)
        job = do(Operation.COMPACT, table, options={"min_input_files": 2})
    assert (job.status, job.error) == (JobStatus.CANCELLED, f"job {job.job_id} was cancelled")
    assert commits(spark, table) == before
    jobs.resume(job.job_id)
    do(None)
    assert jobs.get(job.job_id).status is JobStatus.SUCCEEDED
    assert commits(spark, table) == before + 1


def test_who_has_lost_a_job_stops_and_is_not_listened_to(
    do: Do, store: RecordStore, spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = commits(spark, table)

    def take_away(holding: Holding) -> None:
        job = store.job(holding.job.job_id)
        assert job is not None
        assert store.take_back_job(job, JobStatus.QUEUED)
        assert store.take_job(job.catalog, THEM, seconds=600, choose=next_job) is not None

    with monkeypatch.context() as patch:
        during("staged", take_away, patch)
        job = do(Operation.COMPACT, table, options={"min_input_files": 2})
    assert (job.status, job.worker) == (JobStatus.RUNNING, THEM)
    assert commits(spark, table) == before
    store.end_job(job.claim, JobStatus.CANCELLED)


def test_a_store_that_goes_away_at_the_end_loses_no_job(
    do: Do, store: RecordStore, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_job, failures = store.end_job, [StoreUnusable(), StoreUnusable()]

    def failing(*arguments: Any, **given: Any) -> None:
        if failures:
            raise failures.pop()
        end_job(*arguments, **given)

    monkeypatch.setattr(workers, "_STORE_FIRST_WAIT", 0.01)
    monkeypatch.setattr(store, "end_job", failing)
    job = do(Operation.COMPACT, table, options={"min_input_files": 2})
    assert (job.status, failures) == (JobStatus.SUCCEEDED, [])


def test_a_session_that_was_stopped_ends_the_worker_and_not_the_job(
    application: Application, store: RecordStore, jobs: Jobs, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session itself is needed by other tests: here it only says that it does not work."""

    def broken(*_: Any, **__: Any) -> None:
        raise OSError("connection reset")

    job = jobs.submit(JobRequest(operation=Operation.COMPACT, table=table))
    with monkeypatch.context() as patch:
        patch.setattr(Application, "is_well", False)
        patch.setattr(application, "compact", broken)
        assert Worker(application, store).run() is Ended.AILING
    found = jobs.get(job.job_id)
    assert (found.status, found.failures) == (JobStatus.QUEUED, 1)
    assert "connection reset" in str(found.error)
    assert found.due_at <= store.now()
    assert application.is_well
    jobs.cancel(job.job_id)


@pytest.mark.parametrize(
    ("memory", "limit", "ended"), [(10, 5, Ended.TOO_LARGE), (10, 10, Ended.WORKED), (10, None, Ended.WORKED)]
)
def test_a_worker_that_has_grown_makes_room(
    application: Application, store: RecordStore, jobs: Jobs, table: str, memory: int, limit: int, ended: Ended
) -> None:
    jobs.submit(JobRequest(operation=Operation.POLICY, table=table))
    settings = WorkerSettings(memory_limit=limit, max_jobs=1)
    assert Worker(application, store, settings=settings, memory=lambda: memory).run() is ended


# -- after the death of a worker ------------------------------------------------------------------


def died_over(
    jobs: Jobs, store: RecordStore, table: str, run_id: str | None, options: dict[str, Any] | None = None
) -> Job:
    """A job in the hands of a worker that is not heard of any more, and has begun a run perhaps."""
    options = options or {"min_input_files": 2}
    job = jobs.submit(JobRequest(operation=Operation.COMPACT, table=table, options=options))
    taken = store.take_job(job.catalog, THEM, seconds=600, choose=next_job)
    assert taken is not None
    assert taken.job_id == job.job_id
    store.renew_job(taken.claim, seconds=0.0, run_id=run_id)
    return taken


def test_a_job_of_a_dead_worker_is_done_by_another(
    do: Do, jobs: Jobs, store: RecordStore, spark: SparkSession, table: str
) -> None:
    before = commits(spark, table)
    lost = died_over(jobs, store, table, None)
    do(None)
    job = jobs.get(lost.job_id)
    assert (job.status, job.failures, job.attempts) == (JobStatus.SUCCEEDED, 1, 2)
    assert commits(spark, table) == before + 1


@pytest.mark.parametrize("said", [True, False])
def test_the_run_of_a_dead_worker_is_carried_on_with(
    jobs: Jobs, do: Do, store: RecordStore, spark: SparkSession, application: Application, table: str, said: bool
) -> None:
    """Also if it died before it could say that it had begun one; begun anew, it would be rewritten twice."""
    options, run_id = {"rewrite_all": True}, f"r{table}"
    plan = application.plan(table, Options(rewrite_all=True))
    lost = died_over(jobs, store, table, run_id if said else None, options=options)
    run = run_record(
        run_id,
        catalog=lost.catalog,
        table=table,
        uuid=plan.uuid,
        owner=THEM,
        folder=run_folder(application.spark_catalog.table(table), run_id),
    )
    store.begin(run, plan.to_json())
    before = commits(spark, table)
    do(None)
    job = jobs.get(lost.job_id)
    assert (job.status, job.run_id) == (JobStatus.SUCCEEDED, run_id)
    assert job.result is not None
    assert job.result["run_id"] == run_id
    assert commits(spark, table) == before + 1


def test_what_a_dead_worker_had_committed_is_not_done_again(
    do: Do, jobs: Jobs, store: RecordStore, spark: SparkSession, application: Application, table: str
) -> None:
    """It died after its run, and before it could say so; what was written since is for another job."""
    done = do(Operation.COMPACT, table, options={"min_input_files": 2})
    spark.sql(f"INSERT INTO {table} VALUES (1, timestamp '2026-01-01 10:00:00')")
    spark.sql(f"INSERT INTO {table} VALUES (2, timestamp '2026-01-01 10:00:00')")
    before, runs = commits(spark, table), len(application.runs(table))
    lost = died_over(jobs, store, table, done.run_id)
    do(None)
    job = jobs.get(lost.job_id)
    assert (job.status, job.result) == (JobStatus.SUCCEEDED, done.result)
    assert (commits(spark, table), len(application.runs(table))) == (before, runs)


def test_a_job_whose_run_failed_begins_anew(
    do: Do, jobs: Jobs, store: RecordStore, application: Application, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        during("staged", lambda holding: store.ask_to_cancel(holding.run_id or ""), patch)
        first = do(Operation.COMPACT, table, options={"min_input_files": 2})
    assert (first.status, first.failures, first.run_id) == (JobStatus.QUEUED, 1, None)
    cancelled = application.runs(table)[0]
    assert cancelled.status is Status.CANCELLED
    store.ask_to_cancel_job(first.job_id)
    lost = died_over(jobs, store, table, cancelled.run_id)
    do(None)
    assert jobs.get(lost.job_id).status is JobStatus.SUCCEEDED
    assert jobs.get(lost.job_id).run_id != cancelled.run_id


def test_a_job_that_is_handed_over_is_taken_at_once(
    application: Application, store: RecordStore, jobs: Jobs, do: Do, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(application, store, settings=WorkerSettings(max_jobs=1))
    seen_by: list[Job] = []

    def hand_over(holding: Holding) -> None:
        worker.hand_over()
        seen_by.append(jobs.get(holding.job.job_id))

    job = jobs.submit(JobRequest(operation=Operation.COMPACT, table=table, options={"min_input_files": 2}))
    with monkeypatch.context() as patch:
        during("staged", hand_over, patch)
        worker.run()
    [handed] = seen_by
    assert (handed.status, handed.failures) == (JobStatus.QUEUED, 0)
    assert handed.run_id is not None
    assert handed.due_at - handed.submitted_at < timedelta(minutes=1)
    jobs.cancel(job.job_id)
