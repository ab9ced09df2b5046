"""Local files without processes: Hadoop starts `chmod` for each file that it writes, several for each commit."""

from typing import Any

from icepact.iceberg.java.bridge import Java
from icepact.iceberg.java.classes import load_class

_SETTING = "fs.file.impl"


def use_own_local_files(gateway: Any, hadoop: Any) -> None:
    """Have Java write local files by itself, for everybody in this JVM, unless `hadoop`, its configuration, names
    another way to do it."""
    java = Java(gateway)
    if hadoop.get(_SETTING) is not None:
        return
    files, root = java.jvm.org.apache.hadoop.fs.FileSystem, java.jvm.java.net.URI("file:///")
    conf = java.jvm.org.apache.hadoop.conf.Configuration(hadoop)
    own = load_class(java, "LocalFiles")
    conf.setClassLoader(own.getClassLoader())
    conf.set(_SETTING, own.getName())
    files.get(root, conf).close()  # whoever asks next has the one of this configuration, whatever their own says
    files.get(root, conf)
