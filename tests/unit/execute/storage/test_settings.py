"""How the properties of a FileIO become a connection to S3, and which of them are refused."""

import pytest

from icepact.execute.storage.open import longest, refusal
from icepact.execute.storage.s3_client import ObjectAddress
from icepact.execute.storage.s3_settings import (
    Connection,
    S3WriteSettings,
    connection_of,
    for_bucket,
    with_credential,
    writing_of,
)
from icepact.execute.storage.s3_source import coalesced
from icepact.model.errors import Unsupported

ICEBERG = {
    "s3.endpoint": "http://store:9000",
    "s3.path-style-access": "true",
    "s3.access-key-id": "AKIA",
    "s3.secret-access-key": "hush",
    "s3.session-token": "tok",
    "client.region": "eu-west-1",
}
HADOOP = {
    "fs.s3a.endpoint": "store:9000",
    "fs.s3a.connection.ssl.enabled": "false",
    "fs.s3a.path.style.access": "true",
    "fs.s3a.access.key": "HAKIA",
    "fs.s3a.secret.key": "hhush",
    "fs.s3a.session.token": "htok",
    "fs.s3a.endpoint.region": "eu-west-2",
}
S3_IO = "org.apache.iceberg.aws.s3.S3FileIO"
HADOOP_IO = "org.apache.iceberg.hadoop.HadoopFileIO"


def connection(keys: str, region: str = "eu-west-1") -> Connection:
    """What both sets of properties above describe."""
    return Connection(
        endpoint="http://store:9000",
        region=region,
        path_style=True,
        access_key=f"{keys.upper()}AKIA",
        secret_key=f"{keys}hush",
        token=f"{keys}tok",
    )


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, Connection()),
        (ICEBERG, connection("")),
        (HADOOP, connection("h", "eu-west-2")),
        ({**ICEBERG, **HADOOP}, connection("")),
        ({**ICEBERG, **HADOOP, "io-impl": HADOOP_IO}, connection("h", "eu-west-2")),
        ({**HADOOP, "io-impl": S3_IO}, Connection()),
        ({"s3.region": "r"}, Connection(region="r")),
        ({"fs.s3a.endpoint": "store"}, Connection(endpoint="https://store")),
        ({"fs.s3a.endpoint": "s3.amazonaws.com"}, Connection()),
        ({"s3.endpoint": "https://s3.amazonaws.com/"}, Connection()),
        ({"s3.access-key-id": "", "s3.path-style-access": "FALSE"}, Connection()),
    ],
)
def test_connections(properties: dict[str, str], expected: Connection) -> None:
    assert connection_of(properties) == expected


def test_keys_of_one_family_never_meet_the_token_of_the_other() -> None:
    mixed = {"s3.access-key-id": "A", "s3.secret-access-key": "B", "fs.s3a.session.token": "stale"}
    assert connection_of(mixed) == Connection(access_key="A", secret_key="B")


def test_secrets_are_not_shown() -> None:
    shown = repr(connection_of(ICEBERG))
    assert [secret for secret in ("AKIA", "hush", "tok") if secret in shown] == []


def test_settings_of_a_bucket_win() -> None:
    properties = {**HADOOP, "fs.s3a.bucket.lake.access.key": "OWN", "fs.s3a.bucket.other.access.key": "NOT"}
    assert connection_of(for_bucket(properties, "lake")).access_key == "OWN"


def test_vended_keys_replace_the_tables_own() -> None:
    vended = {"s3.access-key-id": "V", "s3.secret-access-key": "W"}
    made = connection_of(with_credential({**ICEBERG, **HADOOP}, vended))
    assert (made.access_key, made.secret_key, made.token) == ("V", "W", None)
    assert made.endpoint == "http://store:9000"


def test_vended_properties_without_keys_leave_the_keys() -> None:
    assert connection_of(with_credential(ICEBERG, {"client.region": "x"})) == connection("", "x")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("s3://lake/a/b/file", "ab"),
        ("s3a://lake/a/b/file", "ab"),
        ("s3n://lake/a/file", "a"),
        ("s3://lake/c", "any"),
        ("gs://lake/a/b", None),
    ],
)
def test_the_longest_prefix_wins(path: str, expected: str | None) -> None:
    credentials = [
        (prefix, {"who": who}) for prefix, who in [("s3", "any"), ("s3a://lake/a/b", "ab"), ("s3://lake/a", "a")]
    ]
    assert longest(path, credentials)[1].get("who") == expected


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, S3WriteSettings()),
        ({"s3.sse.type": "none"}, S3WriteSettings()),
        ({"s3.sse.type": "s3", "s3.sse.key": "ignored"}, S3WriteSettings(encryption="AES256")),
        ({"s3.sse.type": "kms", "s3.sse.key": "k"}, S3WriteSettings(encryption="aws:kms", encryption_key="k")),
        ({"s3.sse.type": "dsse-kms"}, S3WriteSettings(encryption="aws:kms:dsse")),
        (
            {"fs.s3a.encryption.algorithm": "SSE-KMS", "fs.s3a.encryption.key": "k"},
            S3WriteSettings(encryption="aws:kms", encryption_key="k"),
        ),
        (
            {"s3.write.storage-class": "STANDARD_IA", "s3.acl": "private"},
            S3WriteSettings(storage_class="STANDARD_IA", acl="private"),
        ),
        ({"s3.write.tags.team": "a b", "s3.write.tags.x": "&"}, S3WriteSettings(tags="team=a+b&x=%26")),
        ({"s3.delete-enabled": "false"}, S3WriteSettings(deletes=False)),
    ],
)
def test_what_new_objects_get(properties: dict[str, str], expected: S3WriteSettings) -> None:
    assert writing_of(properties) == expected


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"s3.remote-signing-enabled": "true"}, "requests to S3 are signed remotely (s3.remote-signing-enabled)"),
        ({"s3.access-grants.enabled": "TRUE"}, "S3 access grants are in use (s3.access-grants.enabled)"),
        ({"s3.access-points.lake": "arn:x"}, "S3 access points are in use (s3.access-points.lake)"),
        ({"s3.sse.type": "custom", "s3.sse.key": "c2VjcmV0"}, "S3 encryption of type custom is not supported"),
        ({"fs.s3a.encryption.algorithm": "SSE-C"}, "S3 encryption of type sse-c is not supported"),
        ({"client.factory": "com.x.Own"}, "S3 clients are made by com.x.Own (client.factory)"),
        ({"s3.client-factory-impl": "com.x.Own"}, "S3 clients are made by com.x.Own (s3.client-factory-impl)"),
        ({"client.credentials-provider": "com.x.P"}, "credentials come from com.x.P (client.credentials-provider)"),
        (
            {"fs.s3a.aws.credentials.provider": "a.b.DefaultCredentialsProvider, a.b.AssumedRoleCredentialProvider"},
            "credentials come from a.b.AssumedRoleCredentialProvider (fs.s3a.aws.credentials.provider)",
        ),
        ({"http-client.proxy-endpoint": "http://p"}, "S3 is behind a proxy (http-client.proxy-endpoint)"),
        ({"io-impl": "com.x.OwnIO"}, "files of this table are read through com.x.OwnIO, which only Java knows"),
    ],
)
def test_what_cannot_be_served_is_told_in_a_line(properties: dict[str, str], reason: str) -> None:
    assert refusal(properties) == reason
    assert refusal({}, [("s3://lake", properties)]) == reason


@pytest.mark.parametrize(
    "properties",
    [
        {},
        ICEBERG,
        HADOOP,
        {"s3.remote-signing-enabled": "false", "s3.sse.type": "kms", "io-impl": S3_IO},
        {**ICEBERG, "client.credentials-provider": "com.x.P"},
        {"fs.s3a.aws.credentials.provider": "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"},
        {"client.factory": "org.apache.iceberg.aws.AwsClientFactories$DefaultAwsClientFactory"},
    ],
)
def test_what_can_be_served(properties: dict[str, str]) -> None:
    assert refusal(properties, [("s3://lake", properties)]) is None


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("s3://lake/a/b", "a/b"),
        ("s3a://lake//a%2Fb/c d", "/a%2Fb/c d"),
        ("s3n://lake/p=%F0/+", "p=%F0/+"),
    ],
)
def test_keys_are_taken_literally(path: str, key: str) -> None:
    assert ObjectAddress.of(path) == ObjectAddress(path=path, bucket="lake", key=key)


@pytest.mark.parametrize("path", ["s3://lake", "s3://lake/", "s3:///key", "s3://lake/a?b", "s3://lake/a#b"])
def test_paths_that_name_no_object_are_refused(path: str) -> None:
    with pytest.raises(Unsupported, match="s3://"):
        ObjectAddress.of(path)


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([], []),
        ([(5, 0)], []),
        ([(0, 10), (10, 5)], [(0, 15)]),
        ([(30, 5), (0, 10)], [(0, 10), (30, 5)]),
        ([(0, 10), (20, 5)], [(0, 25)]),
        ([(0, 10), (21, 5)], [(0, 10), (21, 5)]),
        ([(0, 100), (10, 5), (105, 1)], [(0, 106)]),
    ],
)
def test_near_ranges_become_one(ranges: list[tuple[int, int]], expected: list[tuple[int, int]]) -> None:
    assert coalesced(ranges, gap=10) == expected
