"""What is sent: status, headers, body; and which headers keep a page harmless. Pure.

Our own pages load nothing but our own styles and script. What runs made (reports, trends) is shown
in a sandbox: an origin of its own, no request to anywhere. Everything else of a run is text or a
download, and no browser guesses otherwise.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from harness.serve.store_files import Place

OURS: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
A_RUNS: Final = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; font-src data:; connect-src data: blob:; "
    "worker-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
NOTHING: Final = "sandbox; default-src 'none'; frame-ancestors 'none'"

HEADERS: Final[Mapping[str, str]] = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""Of every answer."""

HTML: Final = "text/html; charset=utf-8"
TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
BINARY: Final = "application/octet-stream"

TEXTS: Final = (
    ".log", ".txt", ".json", ".jsonl", ".toml", ".md", ".properties", ".prom", ".xml", ".csv",
    ".edn", ".py", ".svg",
)  # fmt: skip
NAMED_TEXTS: Final = ("stdout", "stderr")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer. `length` is None where nobody knows it before the body is made."""

    status: int = 200
    kind: str = HTML
    body: Iterable[bytes] = ()
    length: int | None = None
    policy: str = OURS
    headers: Mapping[str, str] = field(default_factory=dict)

    def all_headers(self) -> dict[str, str]:
        """Everything but what depends on the connection."""
        length = {} if self.length is None else {"Content-Length": str(self.length)}
        return {
            "Content-Type": self.kind,
            "Content-Security-Policy": self.policy,
            **HEADERS,
            **length,
            **self.headers,
        }


def of_text(text: str, *, status: int = 200, kind: str = HTML, policy: str = OURS) -> Answer:
    """A whole text."""
    body = text.encode(errors="replace")
    return Answer(status=status, kind=kind, body=(body,), length=len(body), policy=policy)


def shown_as(place: Place) -> tuple[str, str, bool]:
    """A file's type, its policy, and whether it is only to be downloaded."""
    name = place[-1].lower()
    if name.endswith(".html"):
        return HTML, A_RUNS, False
    if name.endswith(TEXTS) or name in NAMED_TEXTS:
        return TEXT, NOTHING, False
    return BINARY, NOTHING, True


def is_ours(host: str | None, names: frozenset[str]) -> bool:
    """Whether a request's Host header names this server.

    A page of somewhere else can make its own name point here (DNS rebinding), and would then read
    what we answer; it cannot do so with a number. So numbers, localhost and `names` are ours.
    """
    if not host or len(host) > 300:
        return False
    name = host.strip().lower()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    if name.rstrip(".") in names | {"localhost"}:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
