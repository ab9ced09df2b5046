"""Iceberg's own REST catalog: the servlet of its tests on Jetty, tables in S3, the list of them in SQLite.

Iceberg's stock program for this listens on every interface of the machine; here the same parts are put together
over Py4J and listen on loopback only.
"""

import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway

from icepact.iceberg.spark.jvm import find_java, spark_home
from tests.support.servers.libraries import rest_catalog_jars
from tests.support.servers.process import LOOPBACK, serving
from tests.support.servers.s3 import S3Server

_GATEWAY = re.compile(r"^(\d+)\n(\S+)\n", re.M)
"""What Py4J's server prints first: its port and its password."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RestCatalog:
    """A running REST catalog that asks for no token and hands out no keys."""

    uri: str
    warehouse: str
    s3: S3Server
    """Where its tables are."""

    @property
    def properties(self) -> dict[str, str]:
        """A client's configuration: it brings the S3 keys itself."""
        return {"type": "rest", "uri": self.uri, "warehouse": self.warehouse, **self.s3.properties}


@contextmanager
def rest_catalog(folder: Path, s3: S3Server) -> Iterator[RestCatalog]:
    """A REST catalog with its warehouse in the bucket of an S3 server."""
    warehouse = f"s3://{s3.bucket}/wh"
    properties = {
        "uri": f"jdbc:sqlite:{folder / 'rest.db'}",
        "clients": "1",  # SQLite takes one writer
        "jdbc.schema-version": "V1",
        "warehouse": warehouse,
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        **s3.properties,
    }
    [py4j] = (spark_home() / "jars").glob("py4j-*.jar")
    command = [
        *(str(find_java()[0]), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        *("-Djava.net.preferIPv4Stack=true", "-cp", ":".join(map(str, [py4j, *rest_catalog_jars()]))),
        *("py4j.GatewayServer", "--enable-auth", "0"),
    ]
    with serving("rest", command, folder=folder, polite=signal.SIGKILL) as server:
        port, password = server.wait_until(lambda: _GATEWAY.search(server.log.read_text())).groups()
        parameters = GatewayParameters(address=LOOPBACK, port=int(port), auth_token=password, auto_convert=True)
        gateway = JavaGateway(gateway_parameters=parameters)
        try:
            listening = _listen(gateway.jvm, properties)
        finally:
            gateway.shutdown()  # Jetty keeps Java running; nobody else is to speak to it this way
        yield RestCatalog(uri=f"http://{LOOPBACK}:{listening}", warehouse=warehouse, s3=s3)


def _listen(jvm: Any, properties: Mapping[str, str]) -> int:
    """Start the servlet; the port it listens on."""
    rest = jvm.org.apache.iceberg.rest
    catalog = jvm.org.apache.iceberg.jdbc.JdbcCatalog()
    catalog.initialize("rest_backend", properties)
    jetty = jvm.org.eclipse.jetty
    handler = jetty.ee10.servlet.ServletContextHandler()
    servlet = rest.RESTCatalogServlet(rest.RESTCatalogAdapter(catalog))
    handler.addServlet(jetty.ee10.servlet.ServletHolder(servlet), "/*")
    server = jetty.server.Server(jvm.java.net.InetSocketAddress(LOOPBACK, 0))
    server.setHandler(handler)
    server.start()
    return int(server.getConnectors()[0].getLocalPort())
