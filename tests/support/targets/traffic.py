"""Traffic between the machines of a target, sent and received by the test itself."""

import hashlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from harness.targets.linux.network import namespaces
from harness.targets.local import LocalTarget

PORT = 9092
TIMEOUT_S = 60.0
"""For what must happen, however busy the machine is."""
ABSENCE_S = 0.2
"""How long tests wait for something that must not happen."""


def udp(target: LocalTarget, machine: int, port: int = PORT) -> socket.socket:
    """A datagram socket on a machine."""
    with namespaces.entered(target.network.namespace(machine)):
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    made.bind((target.address(machine), port))
    made.settimeout(TIMEOUT_S)
    return made


def passes(target: LocalTarget, src: int, dst: int, *, within_s: float = TIMEOUT_S) -> bool:
    """Whether a datagram gets from one machine to another."""
    with udp(target, src, 0) as sender, udp(target, dst, 0) as receiver:
        receiver.settimeout(within_s)
        sender.sendto(b"hello", receiver.getsockname())
        try:
            return receiver.recv(100) == b"hello"
        except TimeoutError:
            return False


def blocked(target: LocalTarget, src: int, dst: int) -> bool:
    """Whether a datagram does not get from one machine to another."""
    return not passes(target, src, dst, within_s=ABSENCE_S)


def connects(
    target: LocalTarget, src: int, dst: int, port: int, *, within_s: float = TIMEOUT_S
) -> bool:
    """Whether a TCP connection can be made to a port of a machine."""
    with listening(target, dst, port), namespaces.entered(target.network.namespace(src)):
        try:
            socket.create_connection((target.address(dst), port), timeout=within_s).close()
        except TimeoutError:
            return False
    return True


@contextmanager
def listening(target: LocalTarget, machine: int, port: int = PORT) -> Iterator[socket.socket]:
    """A TCP server's socket."""
    with namespaces.entered(target.network.namespace(machine)):
        server = socket.create_server((target.address(machine), port))
    server.settimeout(TIMEOUT_S)
    with server:
        yield server


@contextmanager
def connection(
    target: LocalTarget, src: int, dst: int, port: int = PORT
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """(client's, server's) ends of a TCP connection."""
    with ExitStack() as stack:
        server = stack.enter_context(listening(target, dst, port))
        client = stack.enter_context(connect(target, src, dst, port))
        accepted = stack.enter_context(server.accept()[0])
        accepted.settimeout(TIMEOUT_S)
        yield client, accepted


def connect(target: LocalTarget, src: int, dst: int, port: int = PORT) -> socket.socket:
    """A client's end of a TCP connection."""
    with namespaces.entered(target.network.namespace(src)):
        return socket.create_connection((target.address(dst), port), timeout=TIMEOUT_S)


def receive(end: socket.socket, size_bytes: int) -> bytes:
    """So many bytes of a TCP connection, or all that come before its end."""
    received = b""
    while len(received) < size_bytes and (data := end.recv(size_bytes - len(received))):
        received += data
    return received


def round_trip_ms(target: LocalTarget, src: int, dst: int, attempts: int = 5) -> float:
    """The shortest of some round trips of a byte over one TCP connection."""
    times = []
    with connection(target, src, dst) as (client, server):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(attempts):
            began_s = time.perf_counter()
            client.sendall(b"?")
            server.sendall(server.recv(1))
            assert client.recv(1) == b"?"
            times.append(time.perf_counter() - began_s)
    return 1e3 * min(times)


def transfer_s(target: LocalTarget, src: int, dst: int, size_bytes: int) -> float:
    """Send bytes over TCP, check that they arrive as they are; seconds from first to last."""
    sent, received = os.urandom(size_bytes), hashlib.sha256()
    with connection(target, src, dst) as (client, server):
        thread = threading.Thread(target=client.sendall, args=(sent,))
        thread.start()
        left, began_s = size_bytes, 0.0
        while left:
            data = server.recv(min(left, 1 << 16))
            assert data, "the connection ended early"
            began_s = began_s or time.perf_counter()
            received.update(data)
            left -= len(data)
        elapsed_s = time.perf_counter() - began_s
        thread.join()
    assert received.digest() == hashlib.sha256(sent).digest()
    return elapsed_s


class Numbered:
    """Datagrams with running numbers from one machine to another."""

    def __init__(self, target: LocalTarget, src: int, dst: int) -> None:
        self._sender, self._receiver = udp(target, src, 0), udp(target, dst, 0)
        self._next = 0

    def send(self, count: int, pause_s: float = 0.0) -> list[int]:
        """Send so many; returns their numbers."""
        numbers = list(range(self._next, self._next + count))
        for number in numbers:
            self._sender.sendto(number.to_bytes(4, "big"), self._receiver.getsockname())
            if pause_s:
                time.sleep(pause_s)
        self._next += count
        return numbers

    def receive(self, count: int) -> list[int]:
        """The next so many numbers, in the order of their arrival."""
        return [int.from_bytes(self._receiver.recv(100), "big") for _ in range(count)]

    def nothing_more(self) -> bool:
        """Whether nothing else arrives."""
        self._receiver.settimeout(ABSENCE_S)
        try:
            self._receiver.recv(100)
        except TimeoutError:
            return True
        finally:
            self._receiver.settimeout(TIMEOUT_S)
        return False

    def __enter__(self) -> "Numbered":
        return self

    def __exit__(self, *_: object) -> None:
        self._sender.close()
        self._receiver.close()
