"""Who else looks after a table, from what services document."""

from collections.abc import Mapping

import pytest

from icepact.model.documents import from_json, to_json
from icepact.policy.managed import ALL_TASKS, ManagedBy, Task, leaves_alone, managed_by

S3, GLUE, R2 = "Amazon S3 Tables", "AWS Glue", "Cloudflare R2 Data Catalog"
GOOGLE, UNITY, TABLEFLOW = "Google Cloud Lakehouse", "Databricks predictive optimization", "Confluent Tableflow"
BUCKET = "s3://63a8e430-6e0b-46f5-k833abtwr6s8tmtsycedn8s4yc3xhuse1b--table-s3"


@pytest.mark.parametrize(
    ("properties", "location", "catalog", "service", "does", "stops"),
    [
        ({}, BUCKET, {}, S3, ALL_TASKS, True),
        ({}, f"{BUCKET}/", {"type": "glue"}, S3, ALL_TASKS, True),
        ({}, "", {"warehouse": "arn:aws:s3tables:us-east-1:111122223333:bucket/b"}, S3, ALL_TASKS, True),
        ({}, "", {"warehouse": "arn:aws-cn:s3tables:cn-north-1:111122223333:bucket/b"}, S3, ALL_TASKS, True),
        (
            {},
            "",
            {"uri": "https://glue.us-east-1.amazonaws.com/iceberg", "warehouse": "111122223333:s3tablescatalog/b"},
            *(S3, ALL_TASKS, True),
        ),
        ({}, "", {"uri": "https://s3tables.eu-west-1.amazonaws.com/iceberg"}, S3, ALL_TASKS, True),
        ({}, "", {"catalog-impl": "software.amazon.s3tables.iceberg.S3TablesCatalog"}, S3, ALL_TASKS, True),
        ({"gcp.biglake.table-management.enabled": "true"}, "gs://b/t", {}, GOOGLE, ALL_TASKS, True),
        ({}, "s3://b/root/__unitystorage/catalogs/1/tables/2", {}, UNITY, ALL_TASKS, True),
        (
            {},
            "s3://b/t",
            {"uri": "https://dbc-1.cloud.databricks.com/api/2.1/unity-catalog/iceberg-rest"},
            *(UNITY, ALL_TASKS, True),
        ),
        (
            {},
            "s3://b/t",
            {"uri": "https://tableflow.us-east-1.aws.confluent.cloud/iceberg/catalog/organizations/o/environments/e"},
            *(TABLEFLOW, {"compact", "expire"}, True),
        ),
        ({}, "s3://b/t", {"type": "glue"}, GLUE, ALL_TASKS, False),
        ({}, "s3://b/t", {"catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog"}, GLUE, ALL_TASKS, False),
        ({}, "s3://b/t", {"uri": "https://glue.cn-north-1.amazonaws.com.cn/iceberg"}, GLUE, ALL_TASKS, False),
        ({}, "s3://b/t", {"uri": "https://catalog.cloudflarestorage.com/a/b"}, R2, {"compact", "expire"}, False),
        ({"openhouse.tableId": "t"}, "hdfs://n/t", {}, "OpenHouse", ALL_TASKS, False),
        ({"self-optimizing.enabled": "true"}, "hdfs://n/t", {}, "Apache Amoro", {"compact"}, False),
        ({"self-optimizing.group": "spark"}, "hdfs://n/t", {}, "Apache Amoro", {"compact"}, False),
        (
            {
                "self-optimizing.enabled": "false",
                "self-optimizing.group": "spark",
                "table-expire.enabled": "true",
                "clean-orphan-file.enabled": "TRUE",
            },
            "hdfs://n/t",
            {},
            *("Apache Amoro", {"expire", "orphans"}, False),
        ),
    ],
)
def test_services_and_how_they_are_recognised(
    properties: Mapping[str, str], location: str, catalog: Mapping[str, str], service: str, does: set[Task], stops: bool
) -> None:
    [found] = managed_by(properties, location, catalog)
    assert (found.service, found.does, found.stops) == (service, does, stops)
    assert from_json(ManagedBy, to_json(found)) == found


@pytest.mark.parametrize(
    ("properties", "location", "catalog"),
    [
        ({}, "", {}),
        ({"write.target-file-size-bytes": "1"}, "s3://bucket/table-s3", {"type": "rest", "uri": "http://host:8181"}),
        ({}, "s3://my--table-s3-copy/t", {}),
        ({}, "s3://b/x--table-s3/t", {}),
        ({"gcp.biglake.table-management.enabled": "false"}, "gs://b/t", {"uri": "https://biglake.googleapis.com/i"}),
        ({"gcp.biglake.bigquery-dml.enabled": "true"}, "gs://b/t", {}),
        ({"self-optimizing.enabled": "false", "self-optimizing.group": "x"}, "", {}),
        ({"self-optimizing.target-size": "1"}, "", {}),
        ({}, "", {"uri": "http://s3tables.example.org.evil.net/iceberg", "warehouse": "my-s3tables"}),
        ({}, "", {"uri": "http://[broken", "warehouse": "s3://b"}),
    ],
)
def test_tables_that_nobody_else_looks_after(
    properties: Mapping[str, str], location: str, catalog: Mapping[str, str]
) -> None:
    assert managed_by(properties, location, catalog) == ()


def test_services_that_stop_us_come_first() -> None:
    both = managed_by({"self-optimizing.enabled": "true", "gcp.biglake.table-management.enabled": "true"})
    assert [service.service for service in both] == ["Google Cloud Lakehouse", "Apache Amoro"]


def test_what_is_left_to_a_service() -> None:
    google = managed_by({"gcp.biglake.table-management.enabled": "true", "openhouse.tableId": "t"})
    assert leaves_alone(google, "expire") == google[0]
    assert leaves_alone(google[1:], "expire") is None
    flow = managed_by({}, "", {"uri": "https://tableflow.us-east-1.aws.confluent.cloud/iceberg"})
    assert leaves_alone(flow, "orphans") is None


def test_what_people_read() -> None:
    [s3] = managed_by({}, "", {"uri": "https://user:secret@s3tables.eu-west-1.amazonaws.com/iceberg"})
    assert str(s3) == (
        "Amazon S3 Tables looks after this table (compacts, expires snapshots, removes orphans): its catalog is"
        " s3tables.eu-west-1.amazonaws.com, where maintenance is on unless it was switched off"
    )
    [amoro] = managed_by({"self-optimizing.group": "spark"})
    assert str(amoro) == (
        "Apache Amoro may look after this table (compacts): it has the property self-optimizing.group, which is"
        " followed here, too: see that only one does"
    )
    assert amoro.to_dict()["does"] == ["compact"]
