"""Compaction over a JDBC catalog whose line goes dead, as a program: the JDBC driver must be there when Java starts.

Its arguments are a JSON file with the address of a PostgreSQL, and one for the answer.
"""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from icepact import Compactor
from icepact.commit import protocol
from icepact.iceberg.java import bridge as java
from icepact.model.errors import IcepactError
from tests.support.compactors import short_compactor
from tests.support.oracle import seen
from tests.support.servers.process import LOOPBACK
from tests.support.servers.silent import line_to, mute, talkative
from tests.support.servers.trial import configuration, make_messy

TABLE = "silenced.t"
_COMMIT = b"UPDATE iceberg_tables"


def limited(folder: Path, catalog: dict[str, str], timeout: str, **more: Any) -> Compactor:
    """A compactor with a limit for its calls to a catalog."""
    path = configuration(folder, catalog, **more)
    path.write_text(path.read_text() + yaml.safe_dump({"catalog_timeout": timeout}))
    return short_compactor(config=path)


def dead_since(start: bytes) -> "Any":
    """A rule: nothing is answered any more once something was asked for."""
    heard: list[bytes] = []

    def rule(asked: bytes) -> bool:
        if start in asked:
            heard.append(asked)
        return bool(heard)

    return rule


def _main(server: dict[str, Any], folder: Path) -> dict[str, Any]:
    conf = {"spark.driver.extraClassPath": server["driver"]}
    facts = {"jdbc.user": server["user"], "jdbc.password": server["password"], "warehouse": str(folder / "warehouse")}

    def compactor(port: int, timeout: str) -> Compactor:
        uri = f"jdbc:postgresql://{LOOPBACK}:{port}/{server['database']}"
        return limited(folder / str(port), {"uri": uri, **facts}, timeout, master="local[2]", conf=conf)

    java.READ_ATTEMPTS = 1
    protocol.FIRST_WAIT = 0.0
    with line_to(server["port"]) as line, line_to(None) as nobody:
        maker = compactor(server["port"], "60s")
        maker.spark.sql("CREATE NAMESPACE silenced")
        make_messy(maker.spark, TABLE, version=2)
        before = seen(maker.spark, TABLE)
        over = compactor(line.port, "1s")
        line.rule = lambda asked: _COMMIT in asked and not line.swallowed
        once = over.compact(TABLE)
        swallowed = line.swallowed
        line.rule = dead_since(_COMMIT)
        dead = over.compact(TABLE, rewrite_all=True)
        line.rule = talkative
        again = over.resume(dead.run_id)
        line.rule = mute
        return {
            "once": once.status,
            "swallowed": swallowed,
            "dead": [dead.status, dead.error],
            "again": again.status,
            "same": seen(maker.spark, TABLE) == before,
            "line": _told(over),
            "nobody": _told(compactor(nobody.port, "1s")),
        }


def _told(compactor: Compactor) -> str:
    try:
        compactor.health(TABLE)
    except IcepactError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    _wanted, _answer = Path(sys.argv[1]), Path(sys.argv[2])
    _answer.write_text(json.dumps(_main(json.loads(_wanted.read_text()), _answer.parent)))
