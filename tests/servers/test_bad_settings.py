"""Settings of S3 and of a catalog that do not fit, on real servers: one line with the place and the property to set."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from icepact.iceberg.java import bridge as java
from icepact.model.errors import IcepactError
from tests.support.compactors import short_compactor
from tests.support.servers.process import LOOPBACK
from tests.support.servers.rest import RestCatalog
from tests.support.servers.s3 import S3Server
from tests.support.servers.trial import configuration, make_messy

CLOSED = f"{LOOPBACK}:1"
"""Nobody listens there."""


def test_every_trouble_is_one_line(
    rest_catalog: RestCatalog, s3_server: S3Server, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(java, "READ_ATTEMPTS", 1)
    right = {**rest_catalog.properties, "s3.retry.num-retries": "0"}
    maker = short_compactor(config=configuration(tmp_path / "right", right))
    maker.spark.sql(f"CREATE NAMESPACE {table.split('.')[0]}")
    make_messy(maker.spark, table, version=2)
    port = urlsplit(s3_server.endpoint).port
    denied = "S3 does not let these keys do that: "  # to a question for a length, S3 does not say why
    troubles = [
        (denied, {"s3.access-key-id": "nobody"}),
        (denied, {"s3.secret-access-key": "wrong"}),
        ("nobody answers at the store: see s3.endpoint", {"s3.endpoint": f"http://{CLOSED}"}),
        (
            "the store does not speak TLS: write http:// in s3.endpoint",
            {"s3.endpoint": f"https://{LOOPBACK}:{port}"},
        ),
        ("catalog 'lake' cannot be opened: nobody answers there: see its uri", {"uri": f"http://{CLOSED}"}),
        (
            "catalog 'lake' cannot be opened: it does not speak TLS: write http:// in its uri",
            {"uri": rest_catalog.uri.replace("http:", "https:")},
        ),
    ]
    told = []
    for number, (meaning, changes) in enumerate(troubles):
        bad = short_compactor(config=configuration(tmp_path / str(number), {**right, **changes}))
        with pytest.raises(IcepactError) as error:
            bad.health(table)
        told.append((meaning, str(error.value)))
    for meaning, line in told:
        assert meaning in line
        assert "\n" not in line
        assert line.startswith("catalog 'lake'") or f"s3://{s3_server.bucket}/" in line
