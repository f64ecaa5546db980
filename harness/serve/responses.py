"""Responses: status, headers, body, and the headers that make pages safe. Pure.

The server's own pages load only its own styles and script. Pages that runs made (reports, trends)
are shown in a sandbox: with an origin of their own, and without any request. All other files of a
run are text or downloads, and browsers may not guess another type.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from harness.serve.store_files import Place

OWN_PAGES: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
RUN_PAGES: Final = (
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
"""The headers of every response."""

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
class Response:
    """One response. `length` is None when it is not known before the body is made."""

    status: int = 200
    kind: str = HTML
    body: Iterable[bytes] = ()
    length: int | None = None
    policy: str = OWN_PAGES
    headers: Mapping[str, str] = field(default_factory=dict)

    def all_headers(self) -> dict[str, str]:
        """Return all headers but those that depend on the connection."""
        length = {} if self.length is None else {"Content-Length": str(self.length)}
        return {
            "Content-Type": self.kind,
            "Content-Security-Policy": self.policy,
            **HEADERS,
            **length,
            **self.headers,
        }


def text_response(
    text: str, *, status: int = 200, kind: str = HTML, policy: str = OWN_PAGES
) -> Response:
    """Return a response with a text."""
    body = text.encode(errors="replace")
    return Response(status=status, kind=kind, body=(body,), length=len(body), policy=policy)


def presentation(place: Place) -> tuple[str, str, bool]:
    """Return a file's type, its security policy, and whether it is only downloaded."""
    name = place[-1].lower()
    if name.endswith(".html"):
        return HTML, RUN_PAGES, False
    if name.endswith(TEXTS) or name in NAMED_TEXTS:
        return TEXT, NOTHING, False
    return BINARY, NOTHING, True


def is_own_host(host: str | None, names: frozenset[str]) -> bool:
    """Whether a request's Host header names this server.

    A foreign page can make its own host name point here (DNS rebinding) and then read the
    responses. It cannot do that with an IP address. So IP addresses, localhost and `names` are
    allowed.
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
