"""Requests over a socket: answers, errors of both kinds, garbage, and the end."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.admin.errors import BadRequest
from harness.recording import journal
from harness.run.by_hand.client import BreakerClient, end_keeper
from harness.run.by_hand.protocol import FAILURE, REQUEST, Refused
from harness.run.by_hand.server import Handler, Listener, serve
from nemesis.base import BadSelector


def add(one: int, other: int) -> int:
    return one + other


def refuse(kind: str) -> None:
    errors = {
        "selector": BadSelector("there is no node 9"),
        "request": BadRequest("no"),
        "failure": Refused("not healed", FAILURE),
        "bug": ZeroDivisionError("division by zero"),
    }
    raise errors[kind]


HANDLERS: dict[str, Handler] = {"add": add, "refuse": refuse}


@contextmanager
def served() -> Iterator[socket.socket]:
    """A socket whose other end answers."""
    near, far = socket.socketpair()
    thread = threading.Thread(target=serve, args=(far, HANDLERS))
    thread.start()
    with near:
        yield near
    thread.join(30)
    assert not thread.is_alive()


def test_a_request_gets_the_answer_of_its_handler() -> None:
    with served() as near, BreakerClient(near) as client:
        assert client.ask("add", one=1, other=2) == 3


@pytest.mark.parametrize(
    ("what", "kind", "text"),
    [
        ("selector", REQUEST, "there is no node 9"),
        ("request", REQUEST, "no"),
        ("failure", FAILURE, "not healed"),
        ("bug", FAILURE, "division by zero"),
    ],
)
def test_an_error_is_the_answer_and_the_next_request_works(what: str, kind: str, text: str) -> None:
    with served() as near, BreakerClient(near) as client:
        with pytest.raises(Refused, match=text) as refused:
            client.ask("refuse", kind=what)
        assert refused.value.kind == kind
        assert client.ask("add", one=1, other=1) == 2


def test_an_unknown_request_and_wrong_fields_are_refused() -> None:
    with served() as near, BreakerClient(near) as client:
        with pytest.raises(Refused, match="no request 'ruin'"):
            client.ask("ruin")
        with pytest.raises(Refused, match="unexpected keyword argument"):
            client.ask("add", one=1, another=2)


def test_garbage_is_refused_and_does_not_end_the_connection() -> None:
    with served() as near, near.makefile("rwb") as file:
        for line in (b"this is no JSON\n", b"[1]\n"):
            file.write(line)
            file.flush()
            assert json.loads(file.readline())["kind"] == REQUEST


def test_a_process_that_ends_is_told_and_hangs_nobody() -> None:
    near, far = socket.socketpair()
    with BreakerClient(near) as client:
        far.close()
        with pytest.raises(Refused, match="has ended"):
            client.ask("add", one=1, other=2)


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run in a registry of its own, with a path that no socket's address could hold."""
    monkeypatch.setenv(journal.REGISTRY, str(tmp_path / ("r" * 120)))
    return tmp_path / "run"


def test_a_run_is_reached_by_its_directory_while_it_listens(run_dir: Path) -> None:
    assert BreakerClient.of_run(run_dir) is None
    listener = Listener(run_dir, HANDLERS)
    client = BreakerClient.of_run(run_dir)
    assert client is not None
    with client:
        assert client.ask("add", one=2, other=2) == 4
        assert listener.connections == 1
    listener.close()
    assert BreakerClient.of_run(run_dir) is None


def test_a_socket_that_a_killed_keeper_left_is_replaced(run_dir: Path) -> None:
    first = Listener(run_dir, {})
    first._socket.shutdown(socket.SHUT_RDWR)  # as the kernel does at a kill: the name stays
    first._socket.close()
    assert BreakerClient.of_run(run_dir) is None
    second = Listener(run_dir, HANDLERS)
    client = BreakerClient.of_run(run_dir)
    assert client is not None
    with client:
        assert client.ask("add", one=1, other=0) == 1
    second.close()


def test_ending_a_keeper_that_is_not_there_does_nothing(run_dir: Path) -> None:
    end_keeper(run_dir)
