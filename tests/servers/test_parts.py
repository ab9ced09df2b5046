"""The parts themselves: what a test believes of them must be so."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from tests.support.servers.process import ServerFailed, running_logs, serving
from tests.support.servers.proxy import Request, VendingCatalog
from tests.support.servers.s3 import S3Server
from tests.support.servers.trial import ROOT

PARENT = """
import sys, time
from pathlib import Path
from tests.support.servers.process import serving
child = "import subprocess, sys; sys.exit(subprocess.run(['sleep', '600']).returncode)"
with serving("nap", [sys.executable, "-c", child], folder=Path(sys.argv[1])) as server:
    print(server.guard.pid, flush=True)
    time.sleep(600)
"""


def test_no_server_outlives_tests_that_are_killed(tmp_path: Path) -> None:
    tests = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT)
    assert tests.stdout is not None
    with tests.stdout:
        guard = psutil.Process(int(tests.stdout.readline()))
    while len(family := guard.children(recursive=True)) < 2:
        assert guard.is_running()
    tests.kill()
    tests.wait()
    _, left = psutil.wait_procs([guard, *family], timeout=30)
    assert left == []


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    program = "print('the port is taken'); raise SystemExit(3)"
    with serving("loser", [sys.executable, "-c", program], folder=tmp_path) as server:
        assert running_logs()[-1] == server.log
        with pytest.raises(ServerFailed, match="loser ended with 3:\nthe port is taken"):
            server.wait_until(lambda: None)


def test_unfinished_uploads_are_seen(s3_server: S3Server) -> None:
    client, bucket, key = s3_server.client, s3_server.bucket, "parts/one"
    upload = client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    client.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=1, Body=b"x")
    assert s3_server.unfinished_uploads() == {key}
    assert s3_server.objects("parts/") == set()
    client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload)
    assert s3_server.unfinished_uploads() == set()


@pytest.mark.parametrize("token", [None, "Bearer other"])
def test_the_door_opens_to_its_token_only(vending_catalog: VendingCatalog, token: str | None) -> None:
    def ask(authorization: str | None) -> int:
        headers = {} if authorization is None else {"Authorization": authorization}
        request = urllib.request.Request(f"{vending_catalog.uri}/v1/config", headers=headers)
        with urllib.request.urlopen(request, timeout=10) as response:
            assert "endpoints" in json.load(response)
            return int(response.status)

    before = vending_catalog.requests[Request.REFUSED]
    with pytest.raises(urllib.error.HTTPError, match="401") as refused:
        ask(token)
    refused.value.close()
    assert vending_catalog.requests[Request.REFUSED] == before + 1
    assert ask(f"Bearer {vending_catalog.token}") == 200
