"""Steps and results of data TTL and automatic tags: documents, and what people read."""

from datetime import UTC, datetime

from icepact.model.documents import from_json, to_json
from icepact.model.housekeeping import Kept
from icepact.model.tags import CreateTags, DueTag, TagsResult
from icepact.model.ttl import ExpireData, ExpireDataResult

NOW = datetime(2026, 3, 1, tzinfo=UTC)
STEP = ExpireData(
    column="day",
    level="partition",
    keep_seconds=30 * 86_400,
    since="last-commit",
    cutoff=NOW,
    pattern=None,
    zone="UTC",
    branch="main",
    snapshot_id=7,
    files=3,
    rows=3000,
    bytes=4096,
    delete_files=1,
    dangling_deletes=2,
    oldest="2025-01-01",
    newest="2026-01-29",
    partitions=("day=2025-01-01", "day=2026-01-29"),
    partition_count=3,
    reason="all their rows are older than 30d",
    kept=(Kept(what="f.parquet", why="younger rows are in it, too, or may be"),),
)
TAG = DueTag(
    name="tag-20260228",
    snapshot_id=5,
    committed_at=NOW,
    trigger=NOW,
    max_age_seconds=86_400,
    why="the first commit since midnight",
)


def test_old_data_as_a_plan_shows_it() -> None:
    assert STEP.explain(1) == [
        "expire data of day before 2026-03-01T00:00:00+00:00: 3 files with 3,000 rows (4.0 KB) in 3 partitions of"
        " branch main",
        "  why: all their rows are older than 30d",
        "  oldest value 2025-01-01, newest 2026-01-29; kept for 30d, measured from the last commit, by partition",
        "  with them go: 1 deletion vector",
        "  2 delete files will apply to nothing any more, and stay",
        "  partition day=2025-01-01",
        "  and 2 more partitions",
        "  stays: f.parquet: younger rows are in it, too, or may be",
    ]
    assert "  and 1 more partition" in STEP.explain(None)  # only the first 1,000 have names
    assert from_json(ExpireData, to_json(STEP)) == STEP


def test_what_became_of_old_data() -> None:
    done = ExpireDataResult(
        column="day", branch="b", cutoff=NOW, files=1, rows=10, bytes=10, oldest="a", newest="z", snapshot_id=9
    )
    assert (
        done.lines()[0] == "expired 1 file with 10 rows (10 B) of day from a to z, in snapshot 9 of branch b, in 0 ms"
    )
    nothing = ExpireDataResult(column="day", branch="b", cutoff=NOW, reason="others took it out")
    assert nothing.lines() == ["no data expired: others took it out"]
    assert from_json(ExpireDataResult, to_json(done)) == done


def test_tags_as_a_plan_shows_them() -> None:
    step = CreateTags(period="daily", tags=(TAG,), reason="due since midnight")
    assert step.explain(None) == [
        "create 1 daily tag",
        "  why: due since midnight",
        "  tag-20260228 on snapshot 5, kept for 1d: the first commit since midnight",
    ]
    assert step.explain(0)[-1] == "  and 1 more tag"
    assert from_json(CreateTags, to_json(step)) == step


def test_what_became_of_tags() -> None:
    assert TagsResult(created=(TAG,)).lines() == [
        "created tag tag-20260228 on snapshot 5, kept for 1d",
        "  in 0 ms",
    ]
    assert TagsResult(reason="there is one by now").lines() == ["no tag created: there is one by now"]
    assert from_json(TagsResult, to_json(TagsResult(created=(TAG,)))) == TagsResult(created=(TAG,))
