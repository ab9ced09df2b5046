"""A REST catalog behind a token that hands out the S3 keys: the client has the token and nothing else."""

import json
from pathlib import Path

import pytest

from icepact import Compactor
from icepact.entrypoints.cli.main import _guarded
from tests.support.compactors import short_compactor
from tests.support.servers.proxy import Handing, Request, VendingCatalog
from tests.support.servers.trial import configuration, try_out
from tests.support.tables import create

VERSIONS = {Handing.CONFIG: 2, Handing.CREDENTIALS: 3}
EITHER = pytest.mark.parametrize("vending_catalog", [Handing.CONFIG], indirect=True, ids=str)
"""For what does not depend on where the keys are."""


def written(folder: Path) -> bytes:
    """What the files of a run history hold, whatever their names; the configuration stands beside them."""
    return b"".join(path.read_bytes() for path in folder.iterdir() if path.name != "icepact.yaml")


def test_compaction_leaves_no_secret_anywhere(vending_catalog: VendingCatalog, table: str, tmp_path: Path) -> None:
    compactor = short_compactor(config=configuration(tmp_path, vending_catalog.properties))
    before = vending_catalog.requests.copy()

    trial = try_out(compactor, table, version=VERSIONS[vending_catalog.handing])

    s3 = vending_catalog.behind.s3
    stored = s3.objects(f"wh/{table.replace('.', '/')}/")
    assert trial.outputs < stored
    assert s3.unfinished_uploads() == set()
    asked = vending_catalog.requests - before
    assert (asked[Request.CREATE], asked[Request.COMMIT], asked[Request.REFUSED]) == (1, 3, 0)
    history = written(tmp_path)
    metadata = b"".join(s3.content(address) for address in stored if "/metadata/" in address)
    assert trial.outcome["run_id"].encode() in history
    assert trial.outcome["run_id"].encode() in metadata
    for secret in vending_catalog.secrets:
        assert secret not in json.dumps(trial.plan)
        assert secret not in json.dumps(trial.outcome)
        assert secret not in repr(compactor.catalog)
        assert secret.encode() not in history
        assert secret.encode() not in metadata


@EITHER
def test_keys_that_the_store_refuses_are_not_repeated(
    vending_catalog: VendingCatalog, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog lets us in, the store does not."""
    config = configuration(tmp_path, vending_catalog.properties)
    spark = short_compactor(config=config).spark
    spark.sql(f"CREATE NAMESPACE {table.split('.')[0]}")
    create(spark, table, "id bigint")
    spark.range(0, 60, 1, 6).writeTo(table).append()
    wrong = {"s3.access-key-id": "nobody-knows-this-key", "s3.secret-access-key": "nor-this-secret"}
    monkeypatch.setattr(vending_catalog, "keys", {**vending_catalog.keys, **wrong})

    with pytest.raises(Exception, match="S3 does not let these keys do that") as refused:
        Compactor(config=config).compact(table)

    for secret in (*vending_catalog.secrets, *wrong.values()):
        assert secret not in str(refused.value)
        assert secret.encode() not in written(tmp_path)


@EITHER
def test_a_wrong_token_is_one_clear_line(
    vending_catalog: VendingCatalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {**vending_catalog.properties, "token": "tok-that-nobody-gave-out"}
    code = _guarded(["--config", str(configuration(tmp_path, wrong)), "health", "db.t"])
    answer = capsys.readouterr()
    assert answer.out == ""
    assert answer.err.count("\n") == 1, answer.err
    assert "Not authorized" in answer.err
    assert "tok-that-nobody-gave-out" not in answer.err
    assert code == 2
