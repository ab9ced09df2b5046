"""The Java libraries of the servers: fetched once by the Ivy that comes with Spark, checked, kept in the user's cache.

Every library is named here with its content's hash, so that no other file decides what is fetched. The
SQLite driver is the one that icepact itself runs with.
"""

import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from icepact.iceberg.spark.jars import JARS, cache_dir, ensure_jars
from icepact.iceberg.spark.jvm import find_java, spark_home


class Library(NamedTuple):
    """One jar: group:artifact:version, with :classifier if it has one."""

    coordinates: str
    sha256: str

    @property
    def file_name(self) -> str:
        """As it is kept."""
        group, artifact, *rest = self.coordinates.split(":")
        return f"{group}_{artifact}-{'-'.join(rest)}.jar"

    @property
    def module(self) -> tuple[str, str, str]:
        """Group, artifact and version: what Ivy must be asked for only once."""
        group, artifact, version, *_ = self.coordinates.split(":")
        return group, artifact, version

    @property
    def artifact(self) -> str:
        """This one file of its module, as Ivy is asked for it."""
        _, name, _, *classifier = self.coordinates.split(":")
        extra = f" m:classifier={quoteattr(classifier[0])}" if classifier else ""
        return f"<artifact name={quoteattr(name)} type='jar' ext='jar'{extra}/>"


REST_CATALOG = tuple(
    Library(*line.split())
    for line in """\
com.fasterxml.jackson.core:jackson-annotations:2.21 53ca085f4a150f703f49e1aabd935bd03b43e1ea3d55d135438292af22cef56b
com.fasterxml.jackson.core:jackson-core:2.21.3 baf8b739e9d9b93bcdb33f25046bfdb8dbd74c97de2a8698539fbe0c7eeac0bb
com.fasterxml.jackson.core:jackson-databind:2.21.3 f397563d8e67630c10cab8c2334ca0e55af832fa3ebde160a379c2c96d43bf25
com.github.ben-manes.caffeine:caffeine:2.9.3 1e0a7bbef1dd791653143f3f05d0e489934bf5481e58a87c9e619cd46b68729b
dev.failsafe:failsafe:3.3.2 2c5dc879a6dac7ea3a7b29d795e27bd49b8e7908b05c2f3e56053c19d79850f5
jakarta.servlet:jakarta.servlet-api:6.0.0 c034eb1afb158987dbb53a5fea0cadf611c8dae8daadd59c44d9d5ab70129cef
org.apache.avro:avro:1.12.1 72600f057bfbe2efe35fa55433e7756d45667dc938934be38a6e2be368aca237
org.apache.httpcomponents.client5:httpclient5:5.6.1 1e3d8444c3c27772e4b9d42a790f06b3345a8ece4fd16d00981f2f2460e1e772
org.apache.httpcomponents.core5:httpcore5:5.4 cec2981fa7f520efb63f0787c24f10af2679e31f9f75c448c4dde40a3ae8100d
org.apache.httpcomponents.core5:httpcore5-h2:5.4 2e0f4ace15db2d1609c2b06eca6012e7582afe4a99ad8d15073f62dd8edb3460
org.apache.iceberg:iceberg-api:1.11.0 f00675a12ceb6d833bb9c22024823a3e7afdedf7abcefe34719f45b0d211995a
org.apache.iceberg:iceberg-aws:1.11.0 4cfe4a7ba3a4fb247a29e60c614678c3b7a1e9b4b91f54e0ca3406419c9338f0
org.apache.iceberg:iceberg-aws-bundle:1.11.0 38f01da7e96850cdd05e6616d758b77b43314b712a8808e3f9a824d56976162f
org.apache.iceberg:iceberg-bundled-guava:1.11.0 396d48d93ef5735f2ddef0cf9b3d6968ebd67b64b5cfe753d41c429d3f46a2a1
org.apache.iceberg:iceberg-common:1.11.0 b2835d00db7c92bdfa728123ad7cdcb488e2f2805c1c51fb9ae94e8bd203bd7d
org.apache.iceberg:iceberg-core:1.11.0 53b9eb7a8c34fb9958ea7d9a4d19ba5bc96f592d0f05e8625b0778c70b1f0090
org.apache.iceberg:iceberg-core:1.11.0:tests 4284719a5f0eb7db01e9f784a0ed4ca8bacf7d6f9951924143afc083428d8be3
org.eclipse.jetty.ee10:jetty-ee10-servlet:12.1.3 4973457f7b084b329b75d63b8f8aa2121806f92d910229ec9f52e6fa9f15ee40
org.eclipse.jetty:jetty-http:12.1.3 f577c514e73577cbd1e4505fbf9cb329592adc146eaf6e292f797577444cf722
org.eclipse.jetty:jetty-io:12.1.3 bb96db1fc7493403084d41b196b5a0cda94859d396d51511ac19dfb18048c3eb
org.eclipse.jetty:jetty-security:12.1.3 f205c15bf00300986477465d9960ade58e7ed6b922d2ee9c8d58551302788837
org.eclipse.jetty:jetty-server:12.1.3 8ecd7b83eaa17f2f86b36c2f88df1a510c428acad691778112f6f7f24015e367
org.eclipse.jetty:jetty-session:12.1.3 5bcb8b35324288a5d92b0a9026093b52acda36916b75583f551779ab570436ca
org.eclipse.jetty:jetty-util:12.1.3 3bbda3723925c060f3a2f202ce13fc0fa5f7dadc3992f1e8ad592bf31d01e4eb
org.roaringbitmap:RoaringBitmap:1.6.14 78ae7a6261b5b03f53b8db991047d06959cfadbd0b08af54bd95dda40af9acba
org.slf4j:slf4j-api:2.0.17 7b751d952061954d5abfed7181c1f645d336091b679891591d63329c622eb832
org.slf4j:slf4j-simple:2.0.17 ddfea59ac074c6d3e24ac2c38622d2d963895e17f70b38ed4bdae4d780be6964
""".splitlines()
)
"""Iceberg's REST catalog as its own tests run it, on Jetty."""

POSTGRESQL_DRIVER = Library(
    "org.postgresql:postgresql:42.7.8", "2a32a9dcbc42d67a50ad3a0de5efd102c8d2be46720045f2cbd6689f160ab7c7"
)

_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""
_MODULE = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="icepact" module="servers"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{wishes}</dependencies>
</ivy-module>
"""


def rest_catalog_jars() -> list[Path]:
    """The class path of the REST catalog, without Py4J."""
    sqlite = [path for jar, path in zip(JARS, ensure_jars(), strict=True) if "sqlite" in jar.coordinates]
    return [*libraries(REST_CATALOG), *sqlite]


def postgresql_driver() -> Path:
    """The JDBC driver of PostgreSQL."""
    return libraries([POSTGRESQL_DRIVER])[0]


def libraries(wanted: Sequence[Library]) -> list[Path]:
    """Paths of jars; what is missing is fetched."""
    folder = cache_dir() / "servers"
    missing = [library for library in wanted if not (folder / library.file_name).is_file()]
    if missing:
        _fetch(missing, folder)
    return [folder / library.file_name for library in wanted]


def _wishes(wanted: Sequence[Library]) -> str:
    """The files alone, and nothing that they depend on."""
    modules: dict[tuple[str, str, str], str] = {}
    for library in wanted:
        modules[library.module] = modules.get(library.module, "") + library.artifact
    return "\n".join(
        f"<dependency org={quoteattr(group)} name={quoteattr(name)} rev={quoteattr(version)} conf='default->*'"
        f" transitive='false'>{artifacts}</dependency>"
        for (group, name, version), artifacts in modules.items()
    )


def _fetch(wanted: Sequence[Library], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    [ivy] = (spark_home() / "jars").glob("ivy-*.jar")
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        settings, module, got = Path(work, "settings.xml"), Path(work, "ivy.xml"), Path(work, "got")
        settings.write_text(_SETTINGS)
        module.write_text(_MODULE.format(wishes=_wishes(wanted)))
        done = subprocess.run(
            [
                *(str(find_java()[0]), "-jar", str(ivy), "-settings", str(settings), "-ivy", str(module)),
                *("-cache", f"{work}/cache"),
                *("-retrieve", f"{got}/[organisation]_[artifact]-[revision](-[classifier]).[ext]"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        for library in wanted:
            file = got / library.file_name
            if not file.is_file():
                raise RuntimeError(f"could not download {library.coordinates}: {done.stdout[-2000:]}{done.stderr}")
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            if digest != library.sha256:
                raise RuntimeError(f"{library.coordinates} is not what was pinned (sha256 {digest}): not used")
            file.replace(folder / library.file_name)  # at once: another run may be doing the same
