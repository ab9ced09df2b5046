"""What one kind of request takes beside another one, asked in turn over the same connections."""

import http.client
import statistics
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit


class Latencies(NamedTuple):
    """Of one path."""

    seconds: Sequence[float]

    @property
    def p50(self) -> float:
        """Milliseconds."""
        return 1000 * statistics.median(self.seconds)

    @property
    def p99(self) -> float:
        """Milliseconds."""
        return 1000 * statistics.quantiles(self.seconds, n=100)[98]


def in_turn(
    url: str, paths: Sequence[str], *, key: str | None, clients: int, seconds: float
) -> tuple[list[Latencies], float]:
    """How long each of some paths takes if so many clients ask for one after the other all the time, and requests per
    second of all together."""
    found: list[list[float]] = [[] for _ in paths]
    until = time.perf_counter() + seconds
    threads = [threading.Thread(target=_client, args=(url, paths, key, at, until, found)) for at in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [Latencies(one) for one in found], sum(map(len, found)) / seconds


def _client(
    url: str, paths: Sequence[str], key: str | None, at: int, until: float, found: Sequence[list[float]]
) -> None:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    while time.perf_counter() < until:
        at += 1
        which = at % len(paths)
        began = time.perf_counter()
        connection.request("GET", paths[which], headers=headers)
        answer = connection.getresponse()
        answer.read()
        found[which].append(time.perf_counter() - began)
        if answer.status != 200:
            raise RuntimeError(f"{paths[which]} answered {answer.status}")
    connection.close()
