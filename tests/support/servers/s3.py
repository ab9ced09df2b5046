"""An S3 server: SeaweedFS, one identity with random keys, one bucket."""

import json
import secrets
import signal
import sysconfig
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tests.support.servers.process import LOOPBACK, free_ports, serving

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

BUCKET = "lake"
REGION = "us-east-1"


@dataclass(frozen=True, kw_only=True, slots=True)
class S3Server:
    """A running S3 server with a bucket."""

    endpoint: str
    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    client: "S3Client" = field(repr=False)
    """boto3's client for it, with these keys."""
    region: str = REGION
    bucket: str = BUCKET

    @property
    def properties(self) -> dict[str, str]:
        """What Iceberg must be told to use it."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": self.access_key,
            "s3.secret-access-key": self.secret_key,
            "s3.path-style-access": "true",
            "client.region": self.region,
        }

    def objects(self, prefix: str = "") -> set[str]:
        """Addresses of all objects below a prefix, as Iceberg writes them."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return {f"s3://{self.bucket}/{found['Key']}" for page in pages for found in page.get("Contents", [])}

    def content(self, address: str) -> bytes:
        """What an object holds."""
        key = address.removeprefix(f"s3://{self.bucket}/")
        return self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()

    def unfinished_uploads(self) -> set[str]:
        """Keys of multipart uploads that were neither completed nor aborted."""
        pages = self.client.get_paginator("list_multipart_uploads").paginate(Bucket=self.bucket)
        return {found["Key"] for page in pages for found in page.get("Uploads", [])}


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """SeaweedFS with all its parts in one process, and its bucket made."""
    access_key, secret_key = secrets.token_hex(10), secrets.token_hex(20)
    identities = folder / "s3.json"
    identities.touch(mode=0o600)
    credentials = {"accessKey": access_key, "secretKey": secret_key}
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    identity = {"name": "tests", "credentials": [credentials], "actions": actions}
    identities.write_text(json.dumps({"identities": [identity]}))
    ports = free_ports(8)
    command = _command(folder, identities, ports)
    # Killed at the end: asked politely it takes its time to save what nobody wants.
    with serving("s3", command, folder=folder, polite=signal.SIGKILL) as server:
        endpoint = f"http://{LOOPBACK}:{ports[0]}"
        with closing(_client(endpoint, access_key, secret_key)) as client:
            server.wait_until(lambda: _ready(client))
            yield S3Server(endpoint=endpoint, access_key=access_key, secret_key=secret_key, client=client)


def _client(endpoint: str, access_key: str, secret_key: str) -> "S3Client":
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        region_name=REGION,
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}, connect_timeout=5),
    )


def _ready(client: "S3Client") -> bool | None:
    """Make the bucket; the server is ready only when something can be written into it."""
    try:
        client.create_bucket(Bucket=BUCKET)
        client.put_object(Bucket=BUCKET, Key="ready", Body=b"x")
    except (BotoCoreError, ClientError):
        return None
    client.delete_object(Bucket=BUCKET, Key="ready")
    return True


def _command(folder: Path, identities: Path, ports: list[int]) -> list[str]:
    data = folder / "s3"
    data.mkdir()
    names = (
        *("s3.port", "s3.port.grpc", "master.port", "master.port.grpc"),
        *("volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc"),
    )
    options = {
        "dir": data,
        "ip": LOOPBACK,
        "ip.bind": LOOPBACK,
        "filer": "true",
        "filer.localSocket": folder / "filer.sock",
        "master.telemetry": "false",
        "master.volumeSizeLimitMB": 512,  # a volume that is full answers 500 once, and requests are counted
        "volume.max": 0,  # as many as the disk has room for
        "volume.preStopSeconds": 0,
        "s3": "true",
        "s3.config": identities,
        "s3.localSocket": folder / "s3.sock",
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        **dict(zip(names, ports, strict=True)),
    }
    weed = Path(sysconfig.get_path("scripts")) / "weed"
    return [str(weed), "server", *(f"-{name}={value}" for name, value in options.items())]
