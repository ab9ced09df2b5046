"""Tables in S3, listed by a REST catalog; the client brings the S3 keys."""

from pathlib import Path

import pytest

from icepact import Compactor
from tests.support.servers.rest import RestCatalog
from tests.support.servers.trial import configuration, try_out


@pytest.mark.parametrize(("version", "method"), [(2, "assemble"), (3, "assemble"), (3, "spark")])
def test_compaction(rest_catalog: RestCatalog, table: str, tmp_path: Path, version: int, method: str) -> None:
    compactor = Compactor(config=configuration(tmp_path, rest_catalog.properties), short=True)

    trial = try_out(compactor, table, version=version, method=method)

    stored = rest_catalog.s3.objects(f"wh/{table.replace('.', '/')}/data/")
    assert trial.outputs < stored
    assert trial.inputs < stored, "readers of older snapshots still need them"
    assert not trial.inputs & trial.outputs
    assert rest_catalog.s3.unfinished_uploads() == set()
    assert table in compactor.tables()
