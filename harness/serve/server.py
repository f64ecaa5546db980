"""Sockets and threads around the desk: one request to a connection, and bounds on everything.

At most CONNECTIONS are served at a time; who comes then is told so (503). A client that is slow to
ask or to take is dropped after TIMEOUT_S without progress. Nothing that a client does is more than
a line of the log.
"""

import contextlib
import logging
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from harness.serve.answers import Answer
from harness.serve.desk import Desk, refusal

log = logging.getLogger(__name__)

CONNECTIONS: Final = 64
TIMEOUT_S: Final = 30.0
FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n"
    b"Content-Length: 0\r\n\r\n"
)


class Server(ThreadingHTTPServer):
    """Serves a desk at an address; `serve_forever` and `shutdown` as usual."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, desk: Desk, host: str, port: int, *, places: int = CONNECTIONS) -> None:
        """Raises OSError where the address cannot be listened on."""
        self.desk = desk
        self._places = threading.BoundedSemaphore(places)
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family, _, _, _, address = found[0]
        super().__init__(address[:2], Handler)  # type: ignore[arg-type]

    def server_bind(self) -> None:
        """Bind, and look up no name for it."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.socket.getsockname()[:2]

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread of its own, if there is a place for it."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        request.settimeout(1.0)
        with contextlib.suppress(OSError):
            request.sendall(FULL)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Give the place back whatever happens."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is a line of the log."""
        log.debug("a connection of %s broke", client_address, exc_info=True)


class Handler(BaseHTTPRequestHandler):
    """One connection, one request."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT_S
    server_version = "highwater"
    sys_version = ""

    def _answer(self) -> None:
        hosts = self.headers.get_all("Host") or []
        asked = hosts[0] if len(hosts) == 1 else None
        self._send(self.server.desk.answer(self.command, self.path, asked))

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _answer
    do_TRACE = do_CONNECT = _answer

    def _send(self, answer: Answer) -> None:
        self.close_connection = True
        chunked = answer.length is None and self.request_version != "HTTP/1.0"
        self.send_response(answer.status)
        for name, value in answer.all_headers().items():
            self.send_header(name, value)
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command == "HEAD":
            return
        for part in answer.body:
            if part:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part) if chunked else part)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is no request at all, as a page like the others."""
        if not hasattr(self, "request_version") or self.request_version == "HTTP/0.9":
            self.request_version = "HTTP/1.0"
        said = message or HTTPStatus(code).phrase
        self._send(refusal(code, f"that request cannot be answered: {said[:200]}"))

    def log_message(self, format: str, *args: Any) -> None:
        """A line of the log, for those who want it."""
        log.debug("%s %s", self.address_string(), format % args)
