"""Finding Java without starting it, and the jars by name."""

from pathlib import Path

import pytest

from icepact.iceberg.spark.jars import JARS, Jar, cache_dir, ensure_jars
from icepact.iceberg.spark.jvm import HOW_TO_GET, find_java
from icepact.model.errors import SetupMissing


def fake_java(home: Path, *, release: str | None, script: str = "exit 1") -> Path:
    """A folder that looks like a JDK; its `java` is a shell script."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    if release is not None:
        (home / "release").write_text(f'IMPLEMENTOR="Somebody"\nJAVA_VERSION="{release}"\n')
    return java


@pytest.mark.parametrize("version", ["17.0.12", "21.0.4", "21"])
def test_a_java_that_fits_is_taken_by_its_release_file(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = fake_java(tmp_path / "jdk", release=version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert find_java() == (java.resolve(), version)


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392", "8", "23.0.1", "unknown"])
def test_another_java_is_named_and_refused(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "jdk", release=version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    with pytest.raises(SetupMissing) as refused:
        find_java()
    assert str(refused.value) == f"Java {version} does not fit: {HOW_TO_GET}"
    assert HOW_TO_GET.startswith("install a JDK 17 or 21")


def test_without_a_release_file_java_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = """echo 'openjdk version "17.0.9" 2023-10-17' >&2"""
    java = fake_java(tmp_path / "jdk", release=None, script=answer)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert find_java() == (java.resolve(), "17.0.9")


def test_a_java_that_does_not_answer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = fake_java(tmp_path / "jdk", release=None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    with pytest.raises(SetupMissing, match=r"^Java of unknown version does not fit"):
        find_java()
    java.chmod(0o644)
    with pytest.raises(SetupMissing, match=r"^Java of unknown version does not fit"):
        find_java()


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SetupMissing) as refused:
        find_java()
    assert str(refused.value) == f"Java is missing (JAVA_HOME={tmp_path} has no bin/java): {HOW_TO_GET}"


def test_without_java_home_the_path_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupMissing) as refused:
        find_java()
    assert str(refused.value) == f"Java is missing (no java on the PATH): {HOW_TO_GET}"
    java = fake_java(tmp_path / "jdk", release="17.0.1")
    (tmp_path / "java").symlink_to(java)
    assert find_java() == (java.resolve(), "17.0.1")


# -- jars -----------------------------------------------------------------------------------------


def test_jars_are_named_as_ivy_names_them() -> None:
    assert Jar("org.xerial:sqlite-jdbc:3.1", "").file_name == "org.xerial_sqlite-jdbc-3.1.jar"
    assert [jar.file_name for jar in JARS] == [
        "org.apache.iceberg_iceberg-spark-runtime-4.1_2.13-1.12.0.jar",
        "org.apache.iceberg_iceberg-aws-bundle-1.12.0.jar",
        "org.xerial_sqlite-jdbc-3.53.4.0.jar",
    ]


def test_every_jar_is_pinned_by_its_content() -> None:
    for jar in JARS:
        assert len(bytes.fromhex(jar.sha256)) == 32


def test_jars_that_are_there_are_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    assert cache_dir() == tmp_path / "icepact"
    folder = tmp_path / "icepact" / "jars"
    folder.mkdir(parents=True)
    for jar in JARS:
        (folder / jar.file_name).touch()
    assert ensure_jars() == [folder / jar.file_name for jar in JARS]


def test_the_cache_is_below_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "icepact"
