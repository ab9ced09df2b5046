"""How much of what was copied is compared with its source, as the policy says."""

from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.model.outcome import Outcome
from tests.support.tables import create
from tests.support.ways import maybe, rewritten


def test_as_much_is_compared_as_the_policy_says(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """What is compared is read twice, here and there; and a page in the middle only if everything is."""
    done: dict[str, Outcome] = {}
    for proof in ("off", "footers", "full"):
        pages = {"write.parquet.page-row-limit": "1000"}
        table = create(spark, f"{namespace}.{proof}", "id bigint, s string", properties=pages)
        rows = spark.range(0, 20_000, 1, 2).selectExpr(f"{maybe('id')} AS id", f"{maybe('sha2(string(id), 256)')} AS s")
        rows.writeTo(table).append()
        done[proof] = rewritten(compactor, table, "copy", copied=2, encoded=0, verify=proof)

    copied, plain = done["off"].effort.copied_bytes, done["off"].effort.transferred_bytes
    assert {outcome.effort.copied_bytes for outcome in done.values()} == {copied}
    assert done["full"].effort.transferred_bytes - plain == 2 * copied
    assert 0 < done["footers"].effort.transferred_bytes - plain < copied
