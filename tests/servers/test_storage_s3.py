"""Objects on a real S3 server: bytes, requests, and what is left behind."""

import itertools
import pickle
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings

from icepact.execute.storage.base import (
    KIB,
    MIB,
    FileDamaged,
    FileMissing,
    FileTaken,
    Meter,
    Storage,
    StorageError,
    StorageRefused,
    Traffic,
)
from icepact.execute.storage.local import LocalStorage
from icepact.execute.storage.open import storage_for
from icepact.execute.storage.s3 import S3Storage
from icepact.execute.storage.s3_client import client_for
from icepact.execute.storage.s3_limits import LEAST_PART, Limits
from icepact.execute.storage.s3_settings import connection_of
from tests.support.servers.s3 import S3Server
from tests.unit.execute.storage.test_verbs import Append, Copy, GoOn, Verb, carry_out, noise, verbs

LARGE = 9_000_000
_names = itertools.count(1)


@pytest.fixture
def folder(s3_server: S3Server) -> Iterator[str]:
    """A prefix of its own; at the end no upload may be unfinished."""
    prefix = f"storage-{next(_names)}/p=a%2Fb c+d"
    yield f"s3://{s3_server.bucket}/{prefix}"
    assert s3_server.unfinished_uploads() == set()


@pytest.fixture
def storage(s3_server: S3Server) -> Storage:
    """Storage whose traffic starts at nothing."""
    return storage_for(s3_server.properties)


def put(server: S3Server, path: str, content: bytes) -> str:
    """An object that somebody else wrote."""
    server.client.put_object(Bucket=server.bucket, Key=path.removeprefix(f"s3://{server.bucket}/"), Body=content)
    return path


def limited(server: S3Server, limits: Limits, extra: Mapping[str, str] | None = None) -> S3Storage:
    """Storage with other sizes."""
    return S3Storage(connection_of({**server.properties, **(extra or {})}), limits=limits, meter=Meter())


# -- reading --------------------------------------------------------------------------------------


def test_a_small_file_is_one_request(storage: Storage, s3_server: S3Server, folder: str) -> None:
    content = noise(8 * MIB - 1)
    source = storage.open(put(s3_server, f"{folder}/in", content), len(content))
    assert source.tail(100) == content[-100:]
    source.preload([(0, 10), (4 * MIB, 1000)])
    assert source.read(0, len(content)) == content
    assert source.read(12_345, 678) == content[12_345 : 12_345 + 678]
    assert storage.traffic == Traffic(requests=1, bytes_read=len(content))
    assert storage.traffic.writes == 0


@pytest.mark.parametrize("size", [3 * MIB, 20 * MIB])
def test_several_ranges_at_once(storage: Storage, s3_server: S3Server, folder: str, size: int) -> None:
    """Those that lie close together in one request, long ones in several; nothing comes from memory."""
    content = noise(size)
    source = storage.open(put(s3_server, f"{folder}/in", content), size)
    source.tail(1000)
    before = storage.traffic
    ranges = [(size - 100, 100), (0, 4), (10, 0), (500, 1000), (2 * MIB, 7)]
    assert source.gather(ranges) == [content[offset : offset + length] for offset, length in ranges]
    after = storage.traffic
    near = 1500 + 7 + 100 if size > 4 * MIB else 1500 + size - 2 * MIB
    assert (after.requests - before.requests, after.bytes_read - before.bytes_read) == (
        3 if size > 4 * MIB else 2,
        near,
    )
    assert source.gather([(0, size)]) == [content]
    assert storage.traffic.requests - after.requests == -(-size // (8 * MIB))
    assert source.far
    with pytest.raises(FileDamaged, match="are not within its"):
        source.gather([(0, 1), (size, 1)])


def test_of_a_large_file_only_what_is_asked_for_travels(storage: Storage, s3_server: S3Server, folder: str) -> None:
    content = noise(8 * MIB)
    source = storage.open(put(s3_server, f"{folder}/in", content), len(content))
    assert source.tail(8) == content[-8:]
    assert source.tail(60_000) == content[-60_000:]
    assert source.read(len(content) - 50_000, 100) == content[-50_000:-49_900]
    assert storage.traffic == Traffic(requests=1, bytes_read=64 * KIB)
    assert source.tail(100_000) == content[-100_000:]
    assert source.read(5, 1_000) == content[5:1_005]
    assert storage.traffic == Traffic(requests=3, bytes_read=64 * KIB + 100_000 + 1_000)


def test_preloaded_ranges_are_merged_split_and_kept(s3_server: S3Server, folder: str) -> None:
    content = noise(20 * MIB)
    storage = limited(s3_server, Limits(piece=3 * MIB))
    source = storage.open(put(s3_server, f"{folder}/in", content), len(content))
    source.preload([(0, 100), (100 + MIB, 100), (4 * MIB, 7 * MIB), (15 * MIB, 10)])
    assert storage.traffic == Traffic(requests=1 + 3 + 1, bytes_read=(200 + MIB) + 7 * MIB + 10)
    assert source.read(50, MIB) == content[50 : 50 + MIB]
    assert source.read(4 * MIB, 7 * MIB) == content[4 * MIB : 11 * MIB]
    assert source.read(5 * MIB, 10) == content[5 * MIB : 5 * MIB + 10]
    assert source.read(15 * MIB, 10) == content[15 * MIB : 15 * MIB + 10]
    assert storage.traffic.requests == 5
    source.preload([(15 * MIB, 10)])
    assert source.read(50, 10) == content[50:60]
    assert storage.traffic.requests == 7


def test_pyarrow_reads_row_groups_from_memory(s3_server: S3Server, folder: str) -> None:
    table = pa.table({"a": range(500_000), "b": [n * 7 for n in range(500_000)]})
    out = pa.BufferOutputStream()
    pq.write_table(table, out, row_group_size=100_000, compression="none", use_dictionary=False)
    storage = limited(s3_server, Limits(whole=MIB))
    source = storage.open(put(s3_server, f"{folder}/t.parquet", bytes(out.getvalue())), out.getvalue().size)
    source.tail(8)
    file = pq.ParquetFile(source.arrow(), pre_buffer=False)
    columns = [file.metadata.row_group(2).column(n) for n in range(2)]
    source.preload([(chunk.data_page_offset, chunk.total_compressed_size) for chunk in columns])
    assert file.read_row_group(2) == table.slice(200_000, 100_000)
    assert storage.traffic.requests == 2
    assert file.read() == table


def test_an_empty_object(storage: Storage, s3_server: S3Server, folder: str) -> None:
    source = storage.open(put(s3_server, f"{folder}/in", b""), 0)
    assert source.read(0, 0) == b""
    assert source.tail(0) == b""


@pytest.mark.parametrize("size", [1_000, LARGE])
@pytest.mark.parametrize("more", [-1, 1])
def test_another_size_than_the_table_says_is_damage(
    storage: Storage, s3_server: S3Server, folder: str, size: int, more: int
) -> None:
    path = put(s3_server, f"{folder}/in", noise(size))
    with pytest.raises(FileDamaged) as caught:
        storage.open(path, size + more).tail(8)
    assert str(caught.value) == f"{path}: has {size} bytes, the table says {size + more}"


def test_a_range_beyond_the_real_end_is_damage(storage: Storage, s3_server: S3Server, folder: str) -> None:
    path = put(s3_server, f"{folder}/in", noise(LARGE))
    with pytest.raises(FileDamaged) as caught:
        storage.open(path, 2 * LARGE).read(LARGE + 10, 5)
    assert str(caught.value) == f"{path}: reading failed: InvalidRange (HTTP 416)"


def test_a_missing_object_is_named(storage: Storage, folder: str) -> None:
    with pytest.raises(FileMissing) as caught:
        storage.open(f"{folder}/none", 10).tail(8)
    assert str(caught.value) == f"{folder}/none: reading failed: NoSuchKey (HTTP 404)"


def test_an_object_that_is_replaced_under_the_reader_is_damage(
    storage: Storage, s3_server: S3Server, folder: str
) -> None:
    path = put(s3_server, f"{folder}/in", noise(LARGE))
    source = storage.open(path, LARGE)
    source.tail(8)
    put(s3_server, path, noise(LARGE, seed=1))
    with pytest.raises(FileDamaged, match="PreconditionFailed"):
        source.read(0, 10)
    sink = storage.create(f"{folder}/out")
    sink.copy(source, 0, LARGE)
    with pytest.raises(FileDamaged, match="PreconditionFailed"):
        sink.close()
    sink.abort()
    assert s3_server.objects(f"{folder}/out".removeprefix(f"s3://{s3_server.bucket}/")) == set()


# -- writing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 16 * MIB - 1])
def test_a_file_below_one_part_is_one_request(storage: Storage, s3_server: S3Server, folder: str, size: int) -> None:
    sink = storage.create(f"{folder}/out")
    sink.append(noise(size))
    sink.close()
    assert s3_server.content(f"{folder}/out") == noise(size)
    assert storage.traffic == Traffic(requests=1, bytes_written=size)
    assert storage.traffic.writes == 1


def test_larger_files_go_in_parts(storage: Storage, s3_server: S3Server, folder: str) -> None:
    content = noise(40 * MIB)
    sink = storage.create(f"{folder}/out")
    sink.append(content[:100])
    sink.append(content[100 : 39 * MIB])
    sink.append(content[39 * MIB :])
    sink.close()
    assert s3_server.content(f"{folder}/out") == content
    # begin, 16 + 16 + 8 MiB, look, complete
    assert storage.traffic == Traffic(requests=6, bytes_written=40 * MIB)
    assert storage.traffic.writes == 5


def test_files_spliced_into_one_stay_in_the_store(storage: Storage, s3_server: S3Server, folder: str) -> None:
    contents = [noise(LARGE, seed) for seed in range(16)]
    sources = [storage.open(put(s3_server, f"{folder}/in-{n}", content), LARGE) for n, content in enumerate(contents)]
    sink = storage.create(f"{folder}/out")
    assert sink.copies_server_side
    for source in sources:
        source.tail(8)
        sink.copy(source, 0, 4_000_000)
        sink.copy(source, 4_000_000, 4_990_000)
        source.close()
    sink.append(b"footer")
    sink.close()
    assert s3_server.content(f"{folder}/out") == b"".join(content[:8_990_000] for content in contents) + b"footer"
    # a tail and a copy of each, begin, the last part, look, complete
    assert storage.traffic == Traffic(
        requests=16 + 16 + 4, bytes_read=16 * 64 * KIB, bytes_written=6, bytes_copied=16 * 8_990_000
    )
    assert storage.traffic.writes == 16 + 3


def test_a_copy_after_a_few_bytes_is_topped_up(storage: Storage, s3_server: S3Server, folder: str) -> None:
    content = noise(12 * MIB)
    source = storage.open(put(s3_server, f"{folder}/in", content), len(content))
    sink = storage.create(f"{folder}/out")
    sink.append(b"PAR1")
    sink.copy(source, 4, 12 * MIB - 4)
    sink.close()
    assert s3_server.content(f"{folder}/out") == b"PAR1" + content[4:]
    through = LEAST_PART - 4
    assert storage.traffic == Traffic(
        requests=6, bytes_read=through, bytes_written=LEAST_PART, bytes_copied=12 * MIB - 4 - through
    )


def test_large_ranges_are_split_and_small_ones_streamed(s3_server: S3Server, folder: str) -> None:
    content = noise(25 * MIB)
    storage = limited(s3_server, Limits(copy=10 * MIB))
    source = storage.open(put(s3_server, f"{folder}/in", content), len(content))
    sink = storage.create(f"{folder}/out")
    sink.copy(source, 0, 25 * MIB)
    sink.copy(source, 7, LEAST_PART - 1)
    sink.close()
    assert s3_server.content(f"{folder}/out") == content + content[7 : LEAST_PART + 6]
    assert storage.traffic == Traffic(
        requests=1 + 3 + 1 + 1 + 2,
        bytes_read=LEAST_PART - 1,
        bytes_written=LEAST_PART - 1,
        bytes_copied=25 * MIB,
    )


def test_parts_grow_with_their_number(s3_server: S3Server, folder: str) -> None:
    """2 parts of 5 MiB, 2 of 10, 1 of 20 and the rest; copies that became too small are streamed."""
    content = noise(60 * MIB)
    storage = limited(s3_server, Limits(part=5 * MIB, parts_per_size=2))
    source = storage.open(put(s3_server, f"{folder}/in", content), len(content))
    sink = storage.create(f"{folder}/out")
    sink.append(content[: 50 * MIB])
    sink.copy(source, 50 * MIB, 10 * MIB)
    sink.close()
    assert s3_server.content(f"{folder}/out") == content
    assert storage.traffic == Traffic(
        requests=1 + 6 + 2 + 2, bytes_read=10 * MIB, bytes_written=60 * MIB, bytes_copied=0
    )


EXTREMES = [0, 1, 70_000, LEAST_PART - 1, LEAST_PART, LEAST_PART + 1, 2 * LEAST_PART - 1, 2 * LEAST_PART, LARGE]


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [Append(LEAST_PART - 1), Copy(1, 0, LEAST_PART), Append(1)],
        [Append(1), Copy(1, 0, 2 * LEAST_PART - 1), Append(1)],
        [Append(1), Copy(1, 0, 2 * LEAST_PART - 2), Append(1)],
        [Append(LEAST_PART), Copy(1, 1, LEAST_PART), Copy(0, 0, LEAST_PART), Append(LEAST_PART)],
        [Copy(1, 0, 100_000), *[GoOn(100_000)] * 100, Append(3), *[GoOn(50_000)] * 20],
        [step for n in range(8) for step in (Copy(n % 2, n, LEAST_PART + n), Append(n))],
        [Append(17 * MIB), Copy(1, 0, LARGE), Append(33 * MIB), Copy(0, 0, LARGE)],
    ],
)
def test_sequences_around_the_limits(storage: Storage, s3_server: S3Server, folder: str, steps: list[Verb]) -> None:
    check(storage, s3_server, folder, steps)


def test_any_sequence_of_appends_and_copies(s3_server: S3Server, folder: str) -> None:
    numbers = itertools.count()
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]

    @settings(max_examples=15, deadline=None, derandomize=True, database=None, suppress_health_check=slow)
    @given(verbs([LARGE, 2 * LEAST_PART + 5, 1_000], EXTREMES, most=7))
    def run(steps: list[Verb]) -> None:
        check(limited(s3_server, Limits(part=6 * MIB, step=MIB)), s3_server, f"{folder}/{next(numbers)}", steps)

    run()


def check(storage: Storage, server: S3Server, folder: str, steps: list[Verb]) -> None:
    """Carry steps out over three files, and compare."""
    contents = [noise(LARGE, 1), noise(2 * LEAST_PART + 5, 2), noise(1_000, 3)]
    paths = [put(server, f"{folder}/in-{n}", content) for n, content in enumerate(contents)]
    expected = carry_out(storage, paths, contents, steps, f"{folder}/out")
    assert server.content(f"{folder}/out") == expected


def test_what_is_not_on_the_same_store_is_streamed(
    storage: Storage, s3_server: S3Server, folder: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = noise(LARGE)
    file = tmp_path_factory.mktemp("local") / "in"
    file.write_bytes(content)
    local = LocalStorage()
    near, sink = local.open(str(file), LARGE), storage.create(f"{folder}/out")
    sink.copy(near, 0, LARGE)
    near.close()
    sink.close()
    assert s3_server.content(f"{folder}/out") == content
    far, back = storage.open(f"{folder}/out", LARGE), local.create(f"{file}-back")
    back.copy(far, 1, LARGE - 1)
    back.close()
    assert file.with_name("in-back").read_bytes() == content[1:]


def test_other_keys_than_the_targets_mean_streaming(s3_server: S3Server, folder: str) -> None:
    """A catalog may vend keys for one prefix that cannot read the other."""
    path = put(s3_server, f"{folder}/old/in", noise(LARGE))
    credentials = [(f"{folder}/new", {"client.region": "us-west-2"})]
    storage = storage_for(s3_server.properties, credentials)
    sink = storage.create(f"{folder}/new/out")
    sink.copy(storage.open(path, LARGE), 0, LARGE)
    sink.close()
    assert s3_server.content(f"{folder}/new/out") == noise(LARGE)
    assert storage.traffic == Traffic(requests=3, bytes_read=LARGE, bytes_written=LARGE)


# -- what is there already, and what stays --------------------------------------------------------


@pytest.mark.parametrize("size", [10, 20 * MIB])
def test_an_existing_object_is_never_written_to(storage: Storage, s3_server: S3Server, folder: str, size: int) -> None:
    sink = storage.create(put(s3_server, f"{folder}/out", b"precious"))
    sink.append(noise(size))
    with pytest.raises(FileTaken, match="out: "):
        sink.close()
    sink.abort()
    assert s3_server.content(f"{folder}/out") == b"precious"


def test_an_aborted_object_was_never_there(storage: Storage, s3_server: S3Server, folder: str) -> None:
    source = storage.open(put(s3_server, f"{folder}/in", noise(LARGE)), LARGE)
    sink = storage.create(f"{folder}/out")
    sink.append(noise(40 * MIB))
    sink.copy(source, 0, LARGE)
    sink.append(b"more")
    sink.abort()
    sink.abort()
    assert s3_server.objects(folder.removeprefix(f"s3://{s3_server.bucket}/")) == {f"{folder}/in"}
    with pytest.raises(StorageError, match="is closed already"):
        sink.append(b"late")


def test_aborting_after_a_good_close_does_nothing(storage: Storage, s3_server: S3Server, folder: str) -> None:
    sink = storage.create(f"{folder}/out")
    sink.append(b"kept")
    sink.close()
    sink.abort()
    assert s3_server.content(f"{folder}/out") == b"kept"


def test_a_missing_origin_fails_the_write_and_leaves_nothing(
    storage: Storage, s3_server: S3Server, folder: str
) -> None:
    sink = storage.create(f"{folder}/out")
    sink.append(noise(LEAST_PART))
    sink.copy(storage.open(f"{folder}/gone", LARGE), 0, LARGE)
    with pytest.raises(FileMissing) as caught:
        sink.close()
    assert str(caught.value) == f"{folder}/gone: copying into {folder}/out failed: NoSuchKey (HTTP 404)"
    sink.abort()
    assert s3_server.objects(folder.removeprefix(f"s3://{s3_server.bucket}/")) == set()


def test_deleting_twice_is_no_error(storage: Storage, s3_server: S3Server, folder: str) -> None:
    put(s3_server, f"{folder}/x", b"x")
    storage.delete(f"{folder}/x")
    storage.delete(f"{folder}/x")
    assert s3_server.objects(folder.removeprefix(f"s3://{s3_server.bucket}/")) == set()
    assert storage.traffic.requests == 2


def test_owners_may_forbid_deleting(s3_server: S3Server, folder: str) -> None:
    put(s3_server, f"{folder}/x", b"x")
    storage_for({**s3_server.properties, "s3.delete-enabled": "false"}).delete(f"{folder}/x")
    assert s3_server.content(f"{folder}/x") == b"x"


# -- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [10, 20 * MIB])
def test_new_objects_get_class_and_tags(s3_server: S3Server, folder: str, size: int) -> None:
    wanted = {"s3.write.storage-class": "STANDARD_IA", "s3.write.tags.team": "a b"}
    sink = storage_for({**s3_server.properties, **wanted}).create(f"{folder}/out")
    sink.append(noise(size))
    sink.close()
    key = f"{folder}/out".removeprefix(f"s3://{s3_server.bucket}/")
    head = s3_server.client.head_object(Bucket=s3_server.bucket, Key=key)
    tags = s3_server.client.get_object_tagging(Bucket=s3_server.bucket, Key=key)["TagSet"]
    assert (head["StorageClass"], tags) == ("STANDARD_IA", [{"Key": "team", "Value": "a b"}])


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_properties_of_hadoop_and_all_schemes(s3_server: S3Server, folder: str, scheme: str) -> None:
    storage = storage_for(
        {
            "fs.s3a.endpoint": s3_server.endpoint,
            "fs.s3a.access.key": s3_server.access_key,
            "fs.s3a.secret.key": s3_server.secret_key,
            "fs.s3a.path.style.access": "true",
        }
    )
    sink = storage.create(f"{scheme}{folder.removeprefix('s3')}/out")
    sink.append(b"bytes")
    sink.close()
    assert s3_server.content(f"{folder}/out") == b"bytes"


def test_vended_keys_are_used_for_their_prefix(s3_server: S3Server, folder: str) -> None:
    path = put(s3_server, f"{folder}/x", b"x")
    keys = {"s3.access-key-id": s3_server.access_key, "s3.secret-access-key": s3_server.secret_key}
    broken = {**s3_server.properties, "s3.secret-access-key": "wrong", "s3.session-token": "stale"}
    assert storage_for(broken, [(folder, keys)]).open(path, 1).read(0, 1) == b"x"
    with pytest.raises(StorageRefused):
        storage_for(broken, [(f"{folder}/y", keys)]).open(path, 1).read(0, 1)


def test_errors_tell_no_secrets_and_travel(s3_server: S3Server, folder: str) -> None:
    wrong = {**s3_server.properties, "s3.secret-access-key": "hush-hush"}
    with pytest.raises(StorageRefused) as caught:
        storage_for(wrong).open(f"{folder}/x", 1).read(0, 1)
    assert str(caught.value) == f"{folder}/x: reading failed: SignatureDoesNotMatch (HTTP 403)"
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_one_client_serves_all_work_of_a_process(s3_server: S3Server) -> None:
    connection = connection_of(s3_server.properties)
    assert client_for(connection) is client_for(connection_of(dict(s3_server.properties)))
    assert client_for(connection) is not client_for(connection_of({**s3_server.properties, "client.region": "x"}))
