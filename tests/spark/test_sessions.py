"""Sessions: our own, and the user's, which is used and never changed."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.model.errors import BadInput
from icepact.model.status import Status


@pytest.fixture
def prod(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """A user's session with a Hadoop catalog called prod and one messy table."""
    monkeypatch.setenv("ICEPACT_STATE", str(tmp_path / "state"))
    session: SparkSession = spark.newSession()
    session.conf.set("spark.sql.catalog.prod", "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set("spark.sql.catalog.prod.type", "hadoop")
    session.conf.set("spark.sql.catalog.prod.warehouse", str(tmp_path / "lake"))
    session.sql("CREATE TABLE prod.db.t (id bigint) USING iceberg")
    session.range(0, 60, 1, 6).writeTo("prod.db.t").append()
    return session


def test_an_adopted_session_is_used_and_not_changed(prod: SparkSession, tmp_path: Path) -> None:
    prod.conf.set("spark.sql.adaptive.enabled", "true")
    before = dict(prod.conf.getAll)
    compactor = Compactor(spark=prod, catalog="prod")
    assert compactor.spark is prod
    outcome = compactor.compact("db.t")
    assert (outcome.status, outcome.files_before, outcome.files_after) == (Status.COMMITTED, 6, 1)
    assert prod.sql("SELECT count(*), sum(id) FROM prod.db.t").collect()[0] == (60, 1770)
    assert dict(prod.conf.getAll) == before
    assert [run.run_id for run in compactor.runs("db.t")] == [outcome.run_id]
    assert (tmp_path / "state" / "icepact.db").is_file()


def test_data_frames_made_from_rdds_stay_in_the_users_session(prod: SparkSession) -> None:
    """PySpark binds `toDF` of every RDD to whichever session was made last: not to one of ours."""
    prod.sparkContext.parallelize([(0,)]).toDF(["a"])
    mine = SparkSession(prod.sparkContext, prod._jsparkSession)
    Compactor(spark=mine, catalog="prod").compact("db.t")
    mine.sparkContext.parallelize([(1,), (2,)]).toDF(["a"]).createOrReplaceTempView("made_from_rdd")
    assert mine.sql("SELECT sum(a) FROM made_from_rdd").collect()[0][0] == 3


def test_a_wap_branch_of_the_user_does_not_redirect_us(prod: SparkSession) -> None:
    prod.sql("ALTER TABLE prod.db.t SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    prod.sql("ALTER TABLE prod.db.t CREATE BRANCH audit")
    prod.conf.set("spark.wap.branch", "audit")
    try:
        outcome = Compactor(spark=prod, catalog="prod").compact("db.t")
    finally:
        prod.conf.unset("spark.wap.branch")
    assert outcome.status is Status.COMMITTED
    assert prod.sql("SELECT count(*) FROM prod.db.t.data_files").collect()[0][0] == 1
    assert prod.sql("SELECT count(*), sum(id) FROM prod.db.t VERSION AS OF 'audit'").collect()[0] == (60, 1770)


def test_the_catalogs_name_may_stand_in_front(prod: SparkSession) -> None:
    assert Compactor(spark=prod, catalog="prod").health("prod.db.t").facts.data_files == 6


def test_without_a_name_the_sessions_current_catalog_is_meant(prod: SparkSession) -> None:
    prod.sql("USE prod.db")
    assert Compactor(spark=prod).health("db.t").facts.data_files == 6


def test_a_catalog_that_the_session_lacks_is_refused(prod: SparkSession) -> None:
    with pytest.raises(BadInput, match="the Spark session has no catalog 'staging'"):
        Compactor(spark=prod, catalog="staging").health("db.t")


def test_two_compactors_in_one_process_do_not_see_each_other(tmp_path: Path, spark: SparkSession) -> None:
    one, two = Compactor(warehouse=tmp_path / "one"), Compactor(warehouse=tmp_path / "two")
    one.spark.sql("CREATE NAMESPACE db")
    one.spark.sql("CREATE TABLE db.t (id bigint) USING iceberg")
    two.spark.sql("CREATE NAMESPACE other")
    assert one.tables() == ["db.t"]
    assert two.tables() == []
