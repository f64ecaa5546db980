"""The server itself, over sockets: bad requests, many of them, and runs that are being written."""

import contextlib
import io
import json
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from harness.cli.main import main
from harness.serve.handlers import RequestHandler
from harness.serve.request_heads import HEAD_BYTES, RequestHeads
from harness.serve.server import Server
from harness.serve.store_files import StoreFiles
from tests.harness.serve.test_live import Growing
from tests.support.reports.stores import add_run, place_of


class Served:
    """A server on a port of its own."""

    def __init__(self, store: Path, places: int = 64) -> None:
        self.store_files = StoreFiles(store)
        self.server = Server(RequestHandler(self.store_files), "127.0.0.1", 0, places=places)
        self.port = self.server.server_port
        self._thread = Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()
        self.store_files.close()

    def wait_for_places(self, free: int) -> None:
        """Until so many places are free; a machine that is busy may take a while."""
        deadline_s = time.monotonic() + 20
        while self.server._places._value != free:  # type: ignore[attr-defined]
            assert time.monotonic() < deadline_s
            time.sleep(0.001)

    def raw(self, request: bytes) -> bytes:
        """Everything that comes back for these bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            parts = []
            while part := connection.recv(65536):
                parts.append(part)
        return b"".join(parts)

    def get(self, target: str, method: str = "GET") -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, target)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("not for you")
    root = tmp_path / "store"
    root.mkdir()
    return root


@pytest.fixture
def served(store: Path) -> Iterator[Served]:
    made = Served(store)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        (b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n", 200),
        (b"GET /../secret HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /files/../../secret HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /files/%2e%2e/secret HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /files/\\..\\secret HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET //etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /files/%00 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET / HTTP/1.1\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 421),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", 405),
        (b"DELETE /files HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n", 501),
        (b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", 505),
        (b"GET / nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", 431),
    ],
)
def test_requests_and_statuses(served: Served, request_: bytes, status: int) -> None:
    """Whatever the bytes: a status, safe headers, and nothing from outside the store."""
    answer = served.raw(request_)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split(maxsplit=2)[1] == str(status).encode(), answer[:300]
    assert b"X-Content-Type-Options: nosniff" in head
    assert b"Content-Security-Policy: " in head
    assert b"not for you" not in body
    assert b"Traceback" not in answer
    assert served.get("/")[0] == 200, "and it goes on"


def test_head_request_gets_only_headers(served: Served, store: Path) -> None:
    """Of a page, of a file, of what is not there."""
    place = "/".join(place_of(store, add_run(store)))
    for target, status in (("/", 200), (f"/files/{place}/harness.log", 200), ("/no", 404)):
        head = f"HEAD {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        answer = served.raw(head)
        assert answer.split(maxsplit=2)[1] == str(status).encode()
        assert answer.endswith(b"\r\n\r\n")
        assert b"Content-Length: " in answer


def test_zip_is_sent_in_chunks(served: Served, store: Path) -> None:
    """And to an old client without."""
    run = add_run(store)
    target = f"/zip/{'/'.join(place_of(store, run))}"
    status, content = served.get(target)
    assert status == 200
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
    old = served.raw(f"GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
    body = old.partition(b"\r\n\r\n")[2]
    assert zipfile.is_zipfile(io.BytesIO(body))


def test_run_is_read_by_many_while_it_is_written(served: Served, store: Path) -> None:
    """Pages, files, archive and live view: every answer is whole, and none an error."""
    growing = Growing(store)
    growing.sends(1)
    place = "/".join(growing.place)
    stop, failures = threading.Event(), []

    def write() -> None:
        number = 0
        while not stop.is_set():
            growing.sends(20)
            growing.run.update(finished=["deploy"], number=number)
            with (growing.run.path / "harness.log").open("a") as file:
                file.write(f"line {number}\n")
            number += 1

    def read(target: str) -> None:
        for _ in range(15):
            status, body = served.get(target)
            if status != 200 or b"Traceback" in body:
                failures.append((target, status, body[:200]))
            if target.startswith("/live"):
                assert json.loads(body)["topics"]
            if target.startswith("/zip") and zipfile.ZipFile(io.BytesIO(body)).testzip():
                failures.append((target, "broken archive", b""))

    log = f"{place}/harness.log"
    targets = ["/", f"/runs/{place}", f"/live/{place}", f"/zip/{place}", f"/log/{log}",
               f"/files/{log}", f"/files/{place}/history"]  # fmt: skip
    writer = Thread(target=write)
    readers = [Thread(target=read, args=(target,)) for target in targets]
    for thread in (writer, *readers):
        thread.start()
    for thread in readers:
        thread.join()
    stop.set()
    writer.join()
    growing.close()
    assert failures == []


def test_a_client_beyond_the_places_gets_a_503(store: Path) -> None:
    """And an answer when one is free."""
    run = add_run(store)
    (run.path / "large.log").write_bytes(b"x" * 20_000_000)
    target = "/".join((*place_of(store, run), "large.log"))
    served = Served(store, places=1)
    try:
        with socket.create_connection(("127.0.0.1", served.port), timeout=20) as taking:
            taking.sendall(f"GET /files/{target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            served.wait_for_places(0)
            answer = served.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 503 ")
        served.wait_for_places(1)
        assert served.get("/")[0] == 200
    finally:
        served.close()


def test_slow_clients_do_not_block_others(store: Path) -> None:
    """There are many more of them than places."""
    served = Served(store, places=2)
    dripping: list[socket.socket] = []
    try:
        for number in range(200):
            dripping.append(socket.create_connection(("127.0.0.1", served.port), timeout=20))
            dripping[-1].sendall(b"GET / HTTP/1.1\r\nX: y\r\n"[: 1 + number % 20])
        for _ in range(3):
            for connection in dripping:
                with contextlib.suppress(OSError):  # on a busy machine their time may be up
                    connection.sendall(b"y")
            assert served.get("/")[0] == 200
    finally:
        for connection in dripping:
            connection.close()
        served.close()


def handed_on(**bounds: Any) -> tuple[RequestHeads, "queue.Queue[bytes]"]:
    """Heads, and those that were whole."""
    whole: queue.Queue[bytes] = queue.Queue()

    def ready(connection: socket.socket, _address: object, head: bytes) -> None:
        connection.close()
        whole.put(head)

    return RequestHeads(ready, **bounds), whole


def test_head_has_a_deadline_even_if_bytes_arrive() -> None:
    """Each byte more is no more time."""
    heads, whole = handed_on(head_s=0.2)
    client, served = socket.socketpair()
    client.settimeout(20)
    heads.add(served, None)
    try:
        client.sendall(b"GET / HTTP/1.1\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 408 ")
        assert whole.empty()
    finally:
        heads.close()
        client.close()


def test_oldest_waiting_client_is_dropped_when_too_many_wait() -> None:
    """And those who come later are read."""
    heads, whole = handed_on(waiting=1)
    pairs = [socket.socketpair() for _ in range(2)]
    try:
        for client, served in pairs:
            client.settimeout(20)
            heads.add(served, None)
        assert pairs[0][0].recv(1000).startswith(b"HTTP/1.1 503 ")
        pairs[1][0].sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert whole.get(timeout=20) == b"GET / HTTP/1.1\r\n\r\n"
    finally:
        heads.close()
        for client, _ in pairs:
            client.close()


def test_endless_head_is_passed_on_at_the_bound() -> None:
    """The handler refuses it by its own rules."""
    heads, whole = handed_on()
    client, served = socket.socketpair()
    heads.add(served, None)
    sending = Thread(target=client.sendall, args=(b"x" * (HEAD_BYTES + 1),))
    sending.start()
    try:
        assert len(whole.get(timeout=20)) > HEAD_BYTES
    finally:
        sending.join()
        heads.close()
        client.close()


def test_client_that_disconnects_does_not_disturb_others(served: Served, store: Path) -> None:
    """In the middle of what it asked for."""
    run = add_run(store)
    (run.path / "large.log").write_bytes(b"x" * 20_000_000)
    target = "/".join((*place_of(store, run), "large.log"))
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
            connection.sendall(f"GET /files/{target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            connection.recv(1000)
    assert served.get("/")[0] == 200


@pytest.mark.slow
def test_the_command_serves_until_it_is_told_to_stop(store: Path) -> None:
    """It says where, and ends in order."""
    command = [
        sys.executable,
        "-m",
        "harness.cli.main",
        "serve",
        "--store",
        str(store),
        "--port",
        "0",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        sentence = process.stderr.readline()
        port = int(sentence.partition("127.0.0.1:")[2].partition("/")[0])
        connection = HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/")
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert "Traceback" not in process.stderr.read()


def test_unusable_store_or_address_is_an_error_with_a_sentence(
    served: Served, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A port that is taken, a store that is not there: 254, and what to do."""
    for arguments, sentence in (
        (["--store", str(store), "--port", str(served.port)], "give another --port"),
        (["--store", str(store / "no")], "name a directory of runs"),
        (["--store", str(store), "--host", "no.such.host.invalid"], "cannot listen on"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["serve", *arguments])
        assert ended.value.code == 254
        assert sentence in capsys.readouterr().err
