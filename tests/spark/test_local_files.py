"""Local files of our own sessions: as Hadoop makes them, without a process for each."""

import grp
import os
import pwd
import stat
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from icepact.iceberg.spark.local_files import use_own_local_files
from tests.support.java import jvm


@pytest.fixture
def files(spark: SparkSession) -> object:
    """What everybody in this Java writes local files with."""
    java = jvm(spark)
    conf = spark._jsparkSession.sparkContext().hadoopConfiguration()
    # whoever closes a file system of Hadoop's, as catalogs in folders do, closes that of everybody
    use_own_local_files(spark.sparkContext._gateway, conf)
    return java.org.apache.hadoop.fs.FileSystem.get(java.java.net.URI("file:///"), conf)


def test_everybody_has_them(files: object) -> None:
    assert files.getClass().getName() == "icepact.LocalFiles"  # type: ignore[attr-defined]


def test_new_files_have_the_permissions_that_were_asked_for(files: object, spark: SparkSession, tmp_path: Path) -> None:
    java = jvm(spark)
    permission = java.org.apache.hadoop.fs.permission.FsPermission
    path = java.org.apache.hadoop.fs.Path(str(tmp_path / "folder" / "file"))
    files.create(path).close()  # type: ignore[attr-defined]
    assert stat.S_IMODE(os.stat(tmp_path / "folder" / "file").st_mode) == 0o644
    for mode in (0o600, 0o751, 0o004):
        files.setPermission(path, permission(f"{mode:03o}"))  # type: ignore[attr-defined]
        assert stat.S_IMODE(os.stat(tmp_path / "folder" / "file").st_mode) == mode


def test_a_sticky_folder_stays_one(files: object, spark: SparkSession, tmp_path: Path) -> None:
    java = jvm(spark)
    shared = java.org.apache.hadoop.fs.Path(str(tmp_path))
    files.setPermission(shared, java.org.apache.hadoop.fs.permission.FsPermission("1777"))  # type: ignore[attr-defined]
    assert stat.S_IMODE(os.stat(tmp_path).st_mode) == 0o1777


def test_what_a_status_says(files: object, spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    file.chmod(0o640)
    java = jvm(spark)
    known = files.getFileStatus(java.org.apache.hadoop.fs.Path(str(file)))  # type: ignore[attr-defined]
    facts = os.stat(file)
    assert (known.getLen(), known.isFile(), str(known.getPermission())) == (3, True, "rw-r-----")
    assert known.getOwner() == pwd.getpwuid(facts.st_uid).pw_name
    assert known.getGroup() == grp.getgrgid(facts.st_gid).gr_name
    assert known.getModificationTime() // 1000 == int(facts.st_mtime)


def test_what_is_not_there(files: object, spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
        files.getFileStatus(jvm(spark).org.apache.hadoop.fs.Path(str(tmp_path / "none")))  # type: ignore[attr-defined]
