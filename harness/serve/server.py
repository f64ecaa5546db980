"""Sockets and threads: one request per connection, and bounds on everything.

`request_heads` reads the requests. At most CONNECTIONS are answered at a time; one more client gets
a 503. A client that reads its response too slowly is dropped: one part may take TIMEOUT_S, and the
whole response one second more for every SLOWEST_BYTES_S. A client can cause only lines of the log.
"""

import contextlib
import io
import logging
import socket
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from harness.serve.handlers import RequestHandler, error_page
from harness.serve.request_heads import RequestHeads, empty_response
from harness.serve.responses import Response

log = logging.getLogger(__name__)

CONNECTIONS: Final = 64
TIMEOUT_S: Final = 30.0
SLOWEST_BYTES_S: Final = 16_384


class Server(ThreadingHTTPServer):
    """Serves a RequestHandler at an address; `serve_forever` and `shutdown` as usual."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(
        self, handler: RequestHandler, host: str, port: int, *, places: int = CONNECTIONS
    ) -> None:
        """Raises OSError when the server cannot listen on the address."""
        self.handler = handler
        self._places = threading.BoundedSemaphore(places)
        self._asked: dict[Any, bytes] = {}
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family, _, _, _, address = found[0]
        self._heads = RequestHeads(self._serve)
        super().__init__(address[:2], ConnectionHandler)  # type: ignore[arg-type]

    def server_bind(self) -> None:
        """Bind, without a DNS lookup."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.socket.getsockname()[:2]

    def server_close(self) -> None:
        """Stop listening, and drop clients without a complete request."""
        super().server_close()
        self._heads.close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Wait for the client's request."""
        self._heads.add(request, client_address)

    def _serve(self, request: socket.socket, client_address: Any, head: bytes) -> None:
        """Answer in a new thread, unless too many are busy."""
        request.settimeout(TIMEOUT_S)
        if self._places.acquire(blocking=False):
            self._asked[request] = head
            super().process_request(request, client_address)
            return
        request.settimeout(1.0)
        with contextlib.suppress(OSError):
            request.sendall(empty_response("503 Service Unavailable"))
        self.shutdown_request(request)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Answer the request."""
        ConnectionHandler(request, client_address, self, self._asked.pop(request))

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Release the place in any case."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a broken connection."""
        log.debug("a connection of %s broke", client_address, exc_info=True)


class ConnectionHandler(BaseHTTPRequestHandler):
    """One connection, one request."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT_S
    server_version = "highwater"
    sys_version = ""

    def __init__(self, request: Any, client_address: Any, server: Server, head: bytes) -> None:
        self._head = head
        super().__init__(request, client_address, server)

    def setup(self) -> None:
        """Use the head that was read; a body is never read."""
        super().setup()
        self.rfile = io.BufferedReader(io.BytesIO(self._head))

    def _answer(self) -> None:
        hosts = self.headers.get_all("Host") or []
        asked = hosts[0] if len(hosts) == 1 else None
        self._send(self.server.handler.respond(self.command, self.path, asked))

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _answer
    do_TRACE = do_CONNECT = _answer

    def _send(self, answer: Response) -> None:
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
        sent, began_s = 0, time.monotonic()
        for part in answer.body:
            if time.monotonic() - began_s > TIMEOUT_S + sent / SLOWEST_BYTES_S:
                raise TimeoutError("the client reads its response too slowly")
            if part:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part) if chunked else part)
                sent += len(part)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a malformed request with an error page."""
        if not hasattr(self, "request_version") or self.request_version == "HTTP/0.9":
            self.request_version = "HTTP/1.0"
        sentence = message or HTTPStatus(code).phrase
        self._send(error_page(code, f"that request cannot be answered: {sentence[:200]}"))

    def log_message(self, format: str, *args: Any) -> None:
        """Log a request."""
        log.debug("%s %s", self.address_string(), format % args)
