"""How to speak to S3, as Iceberg's S3FileIO or Hadoop's S3A are configured.

Both families of properties are understood. Settings never mix: keys come from one family only, and keys
that were vended for a prefix replace the table's own, session token included.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from icepact.model.errors import Unsupported

_WRITE_TAGS = "s3.write.tags."
_ACCESS_POINTS = "s3.access-points."
_AMAZON = "s3.amazonaws.com"

_ICEBERG = {
    "endpoint": ("s3.endpoint",),
    "region": ("client.region", "s3.region"),
    "path-style": ("s3.path-style-access",),
    "ssl": ("s3.ssl-enabled",),
    "access-key": ("s3.access-key-id",),
    "secret-key": ("s3.secret-access-key",),
    "token": ("s3.session-token",),
    "encryption": ("s3.sse.type",),
    "encryption-key": ("s3.sse.key",),
}
_HADOOP = {
    "endpoint": ("fs.s3a.endpoint",),
    "region": ("fs.s3a.endpoint.region",),
    "path-style": ("fs.s3a.path.style.access",),
    "ssl": ("fs.s3a.connection.ssl.enabled",),
    "access-key": ("fs.s3a.access.key",),
    "secret-key": ("fs.s3a.secret.key",),
    "token": ("fs.s3a.session.token",),
    "encryption": ("fs.s3a.encryption.algorithm", "fs.s3a.server-side-encryption-algorithm"),
    "encryption-key": ("fs.s3a.encryption.key", "fs.s3a.server-side-encryption.key"),
}
_CREDENTIALS = ("access-key", "secret-key", "token")
_ENCRYPTION = {
    "none": None,
    "s3": "AES256",
    "sse-s3": "AES256",
    "aes256": "AES256",
    "kms": "aws:kms",
    "sse-kms": "aws:kms",
    "dsse-kms": "aws:kms:dsse",
}
_KNOWN_IO = {"S3FileIO", "HadoopFileIO", "ResolvingFileIO", "GCSFileIO", "ADLSFileIO"}
_FEATURES = {
    "s3.remote-signing-enabled": "requests to S3 are signed remotely",
    "s3.access-grants.enabled": "S3 access grants are in use",
}
_OWN_CLASSES = ("s3.client-factory-impl", "client.factory")
_DEFAULT_CLASSES = {"DefaultS3FileIOAwsClientFactory", "DefaultAwsClientFactory"}
_ORDINARY_PROVIDERS = {
    "SimpleAWSCredentialsProvider",
    "TemporaryAWSCredentialsProvider",
    "EnvironmentVariableCredentialsProvider",
    "IAMInstanceCredentialsProvider",
    "InstanceProfileCredentialsProvider",
    "ContainerCredentialsProvider",
    "WebIdentityTokenFileCredentialsProvider",
    "WebIdentityTokenCredentialsProvider",
    "ProfileCredentialsProvider",
    "DefaultCredentialsProvider",
    "DefaultAWSCredentialsProviderChain",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Connection:
    """Settings of one S3 client."""

    endpoint: str | None = None
    """Address of the store with its scheme; `None` is Amazon's own."""
    region: str | None = None
    """Region to sign for; `None` is what boto3 finds."""
    path_style: bool = False
    """Whether the bucket is in the path and not in the host name."""
    access_key: str | None = field(default=None, repr=False)
    """Id of the access key; `None` is boto3's default chain."""
    secret_key: str | None = field(default=None, repr=False)
    """Secret of the access key."""
    token: str | None = field(default=None, repr=False)
    """Session token of temporary keys."""


@dataclass(frozen=True, kw_only=True, slots=True)
class S3WriteSettings:
    """Settings of new S3 objects."""

    encryption: str | None = None
    """Server-side encryption as S3 names it; `None` is the bucket's default."""
    encryption_key: str | None = None
    """Id of the KMS key."""
    storage_class: str | None = None
    """Storage class; `None` is the bucket's default."""
    acl: str | None = None
    """Canned ACL."""
    tags: str | None = None
    """Object tags, encoded as a query."""
    deletes: bool = True
    """False: the table's owner forbids deleting objects."""


def for_bucket(properties: Mapping[str, str], bucket: str) -> dict[str, str]:
    """Properties with Hadoop's settings for one bucket put over its general ones."""
    prefix = f"fs.s3a.bucket.{bucket}."
    own = {f"fs.s3a.{key.removeprefix(prefix)}": value for key, value in properties.items() if key.startswith(prefix)}
    return {**properties, **own}


def with_credential(properties: Mapping[str, str], vended: Mapping[str, str]) -> dict[str, str]:
    """Properties with vended ones put over them; the table's own keys go if new ones come."""
    merged = dict(properties)
    if any(name in vended for name in _ICEBERG["access-key"]):
        for families in (_ICEBERG, _HADOOP):
            for name in (name for part in _CREDENTIALS for name in families[part]):
                merged.pop(name, None)
    return {**merged, **vended}


def connection_of(properties: Mapping[str, str]) -> Connection:
    """The connection that these properties describe."""
    families = _families(properties)
    keys = [family for family in families if _get(properties, [family], "access-key")]
    return Connection(
        endpoint=_endpoint(properties, families),
        region=_get(properties, families, "region"),
        path_style=_is_true(_get(properties, families, "path-style")),
        access_key=_get(properties, keys[:1], "access-key"),
        secret_key=_get(properties, keys[:1], "secret-key"),
        token=_get(properties, keys[:1], "token"),
    )


def writing_of(properties: Mapping[str, str]) -> S3WriteSettings:
    """What these properties want for new objects."""
    families = _families(properties)
    kind = (_get(properties, families, "encryption") or "none").lower()
    if kind not in _ENCRYPTION:
        raise Unsupported(f"S3 encryption of type {kind} is not supported")
    encryption = _ENCRYPTION[kind]
    tags = {key.removeprefix(_WRITE_TAGS): value for key, value in properties.items() if key.startswith(_WRITE_TAGS)}
    return S3WriteSettings(
        encryption=encryption,
        encryption_key=_get(properties, families, "encryption-key") if encryption not in {None, "AES256"} else None,
        storage_class=properties.get("s3.write.storage-class"),
        acl=properties.get("s3.acl"),
        tags=urlencode(tags) or None,
        deletes=properties.get("s3.delete-enabled", "true").lower() != "false",
    )


def refused_settings(properties: Mapping[str, str]) -> str | None:
    """Why these properties cannot be served by us, in one line; `None` if they can."""
    return next(_refusals(properties), None)


def _refusals(properties: Mapping[str, str]) -> Iterator[str]:
    """All that stands against these properties: classes, features, credentials, encryption."""
    io = properties.get("io-impl")
    if io and _class(io) not in _KNOWN_IO:
        yield f"files of this table are read through {io}, which only Java knows"
    for key in _OWN_CLASSES:
        if key in properties and _class(properties[key]) not in _DEFAULT_CLASSES:
            yield f"S3 clients are made by {properties[key]} ({key})"
    yield from (f"{what} ({key})" for key, what in _FEATURES.items() if _is_true(properties.get(key)))
    yield from (f"S3 access points are in use ({key})" for key in properties if key.startswith(_ACCESS_POINTS))
    if properties.get("http-client.proxy-endpoint"):
        yield "S3 is behind a proxy (http-client.proxy-endpoint)"
    if not connection_of(properties).access_key:
        for key in ("client.credentials-provider", "fs.s3a.aws.credentials.provider"):
            for provider in map(str.strip, properties.get(key, "").split(",")):
                if provider and _class(provider) not in _ORDINARY_PROVIDERS:
                    yield f"credentials come from {provider} ({key})"
    try:
        writing_of(properties)
    except Unsupported as error:
        yield str(error)


def _families(properties: Mapping[str, str]) -> list[Mapping[str, tuple[str, ...]]]:
    """Whose properties count: a FileIO that is named reads only its own."""
    match _class(properties.get("io-impl", "")):
        case "S3FileIO":
            return [_ICEBERG]
        case "HadoopFileIO":
            return [_HADOOP]
        case _:
            return [_ICEBERG, _HADOOP]


def _get(properties: Mapping[str, str], families: list[Mapping[str, tuple[str, ...]]], what: str) -> str | None:
    for family in families:
        for name in family[what]:
            if properties.get(name):
                return properties[name]
    return None


def _endpoint(properties: Mapping[str, str], families: list[Mapping[str, tuple[str, ...]]]) -> str | None:
    endpoint = _get(properties, families, "endpoint")
    if endpoint is None or endpoint.partition("://")[2].rstrip("/") == _AMAZON or endpoint == _AMAZON:
        return None
    if "://" in endpoint:
        return endpoint
    secure = (_get(properties, families, "ssl") or "true").lower() != "false"
    return f"{'https' if secure else 'http'}://{endpoint}"


def _is_true(text: str | None) -> bool:
    return (text or "").strip().lower() == "true"


def _class(name: str) -> str:
    return name.replace("$", ".").rsplit(".", 1)[-1]
