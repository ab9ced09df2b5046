"""What S3 and catalogs say, as people read it: where, what it means, which property to set."""

import pytest

from icepact.iceberg.remedies import catalog_remedy, store_remedy

WAREHOUSE = "s3://lake/wh"
_DENIED = "(Service: S3, Status Code: 403, Request ID: 18E8BDD9) (SDK Attempt Count: 1)"


@pytest.mark.parametrize(
    ("told", "meaning"),
    [
        (
            f"S3Exception: The access key ID you provided does not exist in our records. {_DENIED}",
            "S3 does not know the access key: see s3.access-key-id or AWS_ACCESS_KEY_ID, and whether s3.endpoint",
        ),
        (
            f"S3Exception: The request signature we calculated does not match the signature you provided. {_DENIED}",
            "the secret key does not belong to the access key: see s3.access-key-id and s3.secret-access-key, or",
        ),
        (
            f"S3Exception: The provided token has expired. {_DENIED}",
            "the keys for S3 have expired: get new ones, and set s3.session-token or AWS_SESSION_TOKEN with them",
        ),
        (f"S3Exception: Access Denied {_DENIED}", "S3 does not let these keys do that: let them list, read, write and"),
        (f"S3Exception: null {_DENIED}", "S3 does not let these keys do that: let them list, read, write and delete"),
        (
            "SdkClientException: Unable to load credentials from any of the providers in the chain Aws",
            "no keys for S3 are found: set s3.access-key-id and s3.secret-access-key, or AWS_ACCESS_KEY_ID and AWS",
        ),
        (
            "SdkClientException: Unable to load region from any of the providers in the chain software",
            "no region is known for S3: set client.region, or AWS_REGION",
        ),
        (
            "NoSuchBucketException: The specified bucket does not exist (Service: S3, Status Code: 404)",
            "there is no such bucket: see warehouse and s3.endpoint",
        ),
        (
            "S3Exception: The authorization header is malformed; the region 'a' is wrong; expecting 'b' (Service: S3)",
            "the bucket is in another region: set client.region, or AWS_REGION",
        ),
        (
            "SdkClientException: Unable to execute HTTP request: Connect to 127.0.0.1:1 failed: Connection refused",
            "nobody answers at the store: see s3.endpoint, or AWS_ENDPOINT_URL_S3, and whether it is up",
        ),
        (
            "SdkClientException: Received an UnknownHostException when attempting to interact with a service",
            "the host of the store is not known: see s3.endpoint, and set s3.path-style-access=true if buckets are no",
        ),
        (
            "SdkClientException: Unable to execute HTTP request: Unsupported or unrecognized SSL message",
            "the store does not speak TLS: write http:// in s3.endpoint",
        ),
        (
            "SdkClientException: Unable to execute HTTP request: PKIX path building failed",
            "the certificate of the store is not trusted: give Java a trust store that knows it",
        ),
    ],
)
def test_a_store_that_cannot_be_used(told: str, meaning: str) -> None:
    line = store_remedy(["RuntimeIOException: Failed", told], near=WAREHOUSE)
    assert line is not None
    assert line.startswith(f"{WAREHOUSE}: {meaning}")
    named = store_remedy([f"RuntimeIOException: Failed to open s3://b/wh/db/t/x.avro, {told}", told], near=WAREHOUSE)
    assert named == line.replace(WAREHOUSE, "s3://b/wh/db/t/x.avro", 1)


@pytest.mark.parametrize(
    ("told", "meaning"),
    [
        ("NotAuthorizedException: Not authorized: who?", "it does not know who asks: set token or credential"),
        ("ForbiddenException: Forbidden", "it does not let these credentials do that: see token or credential"),
        ("ConnectException: Connection refused", "nobody answers there: see its uri, and whether it is up"),
        ("UnknownHostException: nowhere.invalid", "its host is not known: see its uri"),
        ("SSLException: Unsupported or unrecognized SSL message", "it does not speak TLS: write http:// in its uri"),
        ("SSLHandshakeException: PKIX path building failed", "its certificate is not trusted: give Java a trust store"),
    ],
)
def test_a_catalog_that_cannot_be_used(told: str, meaning: str) -> None:
    line = catalog_remedy(["RESTException: Error occurred while processing GET request", told])
    assert line is not None
    assert line.startswith(meaning)
    assert store_remedy(["RESTException: Error", told], near=WAREHOUSE) is None


def test_what_is_about_something_else_is_left_as_it_is() -> None:
    assert store_remedy(["NoSuchKeyException: not there (Service: S3, Status Code: 404)"], near=WAREHOUSE) is None
    assert store_remedy(["IllegalArgumentException: no"], near=WAREHOUSE) is None
    assert catalog_remedy(["IllegalArgumentException: no"]) is None
