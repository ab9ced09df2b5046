"""How the API is served: limits, and who may reach it."""

from dataclasses import dataclass

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_KB = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiSettings:
    """Limits of the API; every one of them holds for one request or one connection unless it says otherwise."""

    host: str = "127.0.0.1"
    """The address that it listens on."""
    unprotected: bool = False
    """No keys are needed on other addresses than loopback, either, as long as there are none: something in front keeps
    strangers out."""
    allowed_hosts: tuple[str, ...] = ()
    """Names that requests may have been sent to; on loopback its own names are always among them, and elsewhere none
    means any."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may call it; none unless configured."""
    most_body: int = 1024 * _KB
    """Bytes."""
    most_plan: int = 32 * 1024 * _KB
    """Bytes of a saved plan."""
    most_headers: int = 32 * _KB
    """Bytes."""
    header_seconds: float = 10.0
    """Until a request has said what it wants."""
    body_seconds: float = 15.0
    """Until all of its body is there."""
    most_wait: float = 300.0
    """Seconds that a request may wait for a job."""
    stream_seconds: float = 3600.0
    """After that a stream of events ends; whoever wants more asks again."""
    most_streams: int = 500
    """At once, in this process."""
    most_streams_of_key: int = 50
    """Of these with one key; all who need none are one."""
    requests_per_second: float = 50.0
    """Of one key; as long as keys are needed."""
    burst: int = 200
    """Requests of one key at once."""
    failures_per_minute: float = 30.0
    """Requests of one address with keys that are none."""

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return self.host in LOOPBACK or self.host.startswith("127.")

    @property
    def may_be_open(self) -> bool:
        """Whether nobody needs a key as long as there are none."""
        return self.on_loopback or self.unprotected
