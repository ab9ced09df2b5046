"""Java code of ours: compiled at run time by the compiler that Spark brings along, once; then kept.

Streams over method handles are five times slower per file than a plain loop, which matters for a million files.
"""

import hashlib
import io
import json
import zipfile
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from icepact.iceberg.java.bridge import Java
from icepact.iceberg.spark.jars import cache_dir, keep

_SOURCES = Path(__file__).parent
_LOCK = Lock()
_CLASSES: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
"""By gateway and name: the constructor, and its arguments, of which there are none."""


def instance_of(java: Java, name: str) -> Any:
    """A new instance of one of our classes: `SnapshotLog` for `SnapshotLog.java`."""
    with _LOCK:  # once for each JVM: py4j tells classes apart by their names alone
        classes = _CLASSES.setdefault(java.gateway, {})
        if name not in classes:
            nothing = java.gateway.new_array(java.jvm.java.lang.Class, 0)
            make = load_class(java, name).getDeclaredConstructor(nothing)
            classes[name] = make, java.gateway.new_array(java.jvm.java.lang.Object, 0)
    make, nothing = classes[name]
    return make.newInstance(nothing)


def ship(java: Java, spark: Any, name: str) -> None:
    """Let tasks of Spark have one of our classes; `spark` is Java's own context."""
    code, kept = _compiled(java, name)
    jar = kept.with_suffix(".jar")
    if jar.name in str(spark.sc().listJars().mkString(" ")):
        return
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for full_name, one in code.items():
            archive.writestr(f"{full_name.replace('.', '/')}.class", one)
    keep(jar, content.getvalue())
    spark.addJar(str(jar))


def load_class(java: Java, name: str) -> Any:
    """One of our classes, with those inside of it."""
    codes, _ = _compiled(java, name)
    classes = java.jvm.java.util.HashMap()
    for full_name, code in codes.items():
        classes.put(full_name, code)
    parent = java.jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    loader = java.jvm.org.codehaus.commons.compiler.util.reflect.ByteArrayClassLoader(classes, parent)
    return loader.loadClass(f"icepact.{name}")


def _compiled(java: Java, name: str) -> tuple[dict[str, bytes], Path]:
    """The code of one of our classes and those inside of it, by name, and where it is kept."""
    source = (_SOURCES / f"{name}.java").read_text(encoding="utf-8")
    known = f"{source}{java.iceberg.IcebergBuild.version()}{java.jvm.java.lang.System.getProperty('java.version')}"
    cached = cache_dir() / "java" / f"{name}-{hashlib.sha256(known.encode()).hexdigest()[:16]}.json"
    if cached.is_file():
        return {full_name: bytes.fromhex(code) for full_name, code in json.loads(cached.read_text()).items()}, cached
    compiler = java.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(java.jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())
    compiler.cook(source)
    made = compiler.getBytecodes()
    codes = {str(full_name): bytes(made.get(full_name)) for full_name in java.items(made.keySet())}
    with suppress(OSError):  # then it is compiled again next time
        keep(cached, json.dumps({full_name: code.hex() for full_name, code in codes.items()}).encode())
    return codes, cached
