"""An HTTP address on this machine: each line of a POST or PUT is an element, in order of arrival.

The request is answered with 204 when its lines are known. So a program that got no answer does not
know whether its output arrived.
"""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from harness.workloads.app.elements import Place
from harness.workloads.app.outputs.base import Elements, TooMuchOutput

MAX_BODY_BYTES: Final = 10_000_000


class HttpOutput:
    """Serves the address, on a free port."""

    def __init__(self, elements: Elements, host: str) -> None:
        """Serve at an address of this machine. Raises OSError if no port can be had."""
        self._host = host
        self.elements = elements
        self.problem: str | None = None
        self._mutex = threading.Lock()
        self._lines = 0
        self._flooded: TooMuchOutput | None = None
        output = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = self.headers.get("Content-Length", "")
                if not length.isdigit() or int(length) > MAX_BODY_BYTES:
                    self.close_connection = True
                    self._answer(411 if not length.isdigit() else 413)
                    return
                output.take(self.rfile.read(int(length)))
                self._answer(204)

            do_PUT = do_POST

            def _answer(self, code: int) -> None:
                self.send_response(code)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer((host, 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """The URL."""
        return f"http://{self._host}:{self._server.server_port}/"

    def take(self, body: bytes) -> None:
        """Take the lines of a request."""
        with self._mutex:
            for line in body.splitlines():
                try:
                    self.elements.add(Place(0, self._lines), line.decode(errors="replace"))
                except TooMuchOutput as error:
                    self._flooded = error
                    return
                self._lines += 1

    def poll(self) -> None:
        """See `OutputReader`; the lines are here already."""
        if self._flooded is not None:
            raise self._flooded

    def finish(self) -> None:
        """See `OutputReader`."""
        self.poll()

    def close(self) -> None:
        """See `OutputReader`."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
