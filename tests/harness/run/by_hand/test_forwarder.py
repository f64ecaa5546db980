"""Connections from outside reach the node that they are for, and break as the node does."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from harness.run.by_hand.forwarder import Forwarder
from harness.systems.brokers import OUTSIDE_PORT

NODE = "127.0.77.5"
MUCH = bytes(range(256)) * 16_384


@contextmanager
def forwarded() -> Iterator[tuple[str, int]]:
    """The address of a forwarder to NODE."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        forwarder = Forwarder({1: listening}, lambda _node: NODE, nullcontext)
        forwarder.start()
        try:
            yield listening.getsockname()
        finally:
            forwarder.stop()


@contextmanager
def node(answer: bytes = b"", *, read: int = 0) -> Iterator[list[bytes]]:
    """A node that reads so many bytes of each connection, answers, and closes it."""
    read_bytes: list[bytes] = []
    with socket.create_server((NODE, OUTSIDE_PORT)) as server:

        def run() -> None:
            try:
                connected, _ = server.accept()
            except OSError:
                return
            with connected, connected.makefile("rb") as file:
                read_bytes.append(file.read(read))
                connected.sendall(answer)

        thread = threading.Thread(target=run)
        thread.start()
        yield read_bytes
        with socket.socket() as waker:  # a node that nobody asked still waits
            waker.settimeout(5)
            if thread.is_alive():
                waker.connect_ex((NODE, OUTSIDE_PORT))
        thread.join(30)


def test_bytes_pass_in_both_directions_and_the_end_passes_too() -> None:
    with (
        node(answer=MUCH, read=len(MUCH)) as arrived,
        forwarded() as address,
        socket.create_connection(address, timeout=60) as client,
        client.makefile("rb") as file,
    ):
        sender = threading.Thread(target=client.sendall, args=(MUCH,))
        sender.start()
        assert file.read() == MUCH
        sender.join()
    assert arrived == [MUCH]


def test_a_node_that_is_down_closes_the_connection_and_the_next_one_works() -> None:
    with forwarded() as address:
        with socket.create_connection(address, timeout=60) as client:
            assert _ends(client)
        with node(answer=b"up") as _, socket.create_connection(address, timeout=60) as client:
            assert client.recv(2, socket.MSG_WAITALL) == b"up"


def test_what_a_node_sends_at_once_arrives() -> None:
    for _ in range(50):
        with (
            node(answer=b"up"),
            forwarded() as address,
            socket.create_connection(address, timeout=60) as client,
            client.makefile("rb") as file,
        ):
            assert file.read(2) == b"up"


def test_the_end_of_the_forwarder_ends_its_connections() -> None:
    with node(read=1), forwarded() as address:
        client = socket.create_connection(address, timeout=60)
    with client:
        assert _ends(client)


def _ends(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True
