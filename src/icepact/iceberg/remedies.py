"""Error messages of stores and catalogs, translated into which property to set."""

import re
from collections.abc import Sequence
from typing import NamedTuple


class _Remedy(NamedTuple):
    """An error by the pattern of its message: what it means, and what to do about it."""

    pattern: str
    meaning: str
    todo: str


_KEYS = "s3.access-key-id and s3.secret-access-key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_TRUST = "give Java a trust store that knows it (javax.net.ssl.trustStore in spark.driver.extraJavaOptions)"
_STORE_REMEDIES = (
    _Remedy("Unable to load region", "no region is known for S3", "set client.region, or AWS_REGION"),
    _Remedy("Unable to load credentials", "no keys for S3 are found", f"set {_KEYS}"),
    _Remedy(
        r"token[^.]* expired|expired[^.]* token|ExpiredToken|security token[^.]* is invalid",
        "the keys for S3 have expired",
        "get new ones, and set s3.session-token or AWS_SESSION_TOKEN with them",
    ),
    _Remedy(
        r"access key id[^.]* does not exist|InvalidAccessKeyId",
        "S3 does not know the access key",
        "see s3.access-key-id or AWS_ACCESS_KEY_ID, and whether s3.endpoint is the store that it belongs to",
    ),
    _Remedy(
        r"signature we calculated does not match|SignatureDoesNotMatch",
        "the secret key does not belong to the access key",
        f"see {_KEYS}",
    ),
    _Remedy(r"bucket does not exist|NoSuchBucket", "there is no such bucket", "see warehouse and s3.endpoint"),
    _Remedy(
        r"region [^.]*is wrong|must be addressed using the specified endpoint|Status Code: 301",
        "the bucket is in another region",
        "set client.region, or AWS_REGION",
    ),
    _Remedy(
        "Status Code: 403",
        "S3 does not let these keys do that",
        f"let them list, read, write and delete there, or see {_KEYS}",
    ),
    _Remedy(
        r"plaintext connection|Unsupported or unrecognized SSL message|not an SSL",
        "the store does not speak TLS",
        "write http:// in s3.endpoint",
    ),
    _Remedy(
        r"PKIX|SSLHandshake|SSLPeerUnverified|certificate",
        "the certificate of the store is not trusted",
        _TRUST,
    ),
    _Remedy(
        r"UnknownHost|Name or service not known|nodename nor servname",
        "the host of the store is not known",
        "see s3.endpoint, and set s3.path-style-access=true if buckets are no hosts there",
    ),
    _Remedy(
        r"Connection refused|Connect to \S+ .*failed|HttpHostConnect",
        "nobody answers at the store",
        "see s3.endpoint, or AWS_ENDPOINT_URL_S3, and whether it is up",
    ),
)
_CATALOG_REMEDIES = (
    _Remedy(r"^NotAuthorizedException", "it does not know who asks", "set token or credential"),
    _Remedy(r"^ForbiddenException", "it does not let these credentials do that", "see token or credential"),
    _Remedy(r"plaintext connection|unrecognized SSL message", "it does not speak TLS", "write http:// in its uri"),
    _Remedy(
        r"PKIX|SSLHandshake|SSLPeerUnverified",
        "its certificate is not trusted",
        _TRUST,
    ),
    _Remedy(r"UnknownHost", "its host is not known", "see its uri"),
    _Remedy(r"Connection refused|HttpHostConnect", "nobody answers there", "see its uri, and whether it is up"),
)
_STORE_ERRORS = ("S3Exception", "SdkClientException", "NoSuchBucketException", "Service: S3")
_ADDRESS = re.compile(r"s3[an]?://[^\s,;)'\"]+")


def store_remedy(messages: Sequence[str], near: str | None = None) -> str | None:
    """What is wrong with S3, by the messages of an error and its causes; `None` if the error is not about S3.

    `near` is an address in the store, for errors that name none.
    """
    text = "\n".join(messages)
    if not any(word in text for word in _STORE_ERRORS):
        return None
    found = _ADDRESS.search(text)
    where = found[0].rstrip(".:") if found else near if near and _ADDRESS.match(near) else None
    remedy = _first(_STORE_REMEDIES, text)
    return None if remedy is None else f"{f'{where}: ' if where else ''}{remedy.meaning}: {remedy.todo}"


def catalog_remedy(messages: Sequence[str]) -> str | None:
    """What is wrong with a catalog behind HTTP, by the messages of an error and its causes; `None` if it is unknown."""
    remedy = _first(_CATALOG_REMEDIES, "\n".join(messages))
    return None if remedy is None else f"{remedy.meaning}: {remedy.todo}"


def _first(remedies: Sequence[_Remedy], text: str) -> _Remedy | None:
    return next((r for r in remedies if re.search(r.pattern, text, re.IGNORECASE | re.MULTILINE)), None)
