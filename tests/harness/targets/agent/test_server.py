"""An agent over a UNIX socket: its answers, lost connections, and the dead-man's timer."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from harness.targets.agent.client import AgentClient
from harness.targets.agent.machine import Machine
from harness.targets.agent.server import AgentServer, Session
from harness.targets.base import NodeState, TargetError
from harness.targets.linux import kernel
from nemesis.hosts import Cut, Disks, Links

PATIENCE_S = 60.0
LONG_S = 300.0
SOON_S = 0.5


class FakeMachine:
    """Counts what is done to it."""

    def __init__(self) -> None:
        self.links = self.disks = self.clocks = self
        self.abilities: frozenset[str] = frozenset()
        self.frozen = 0
        self.slow, self.go_on = threading.Event(), threading.Event()
        self.healed, self.ended = threading.Event(), threading.Event()

    def freeze(self, node: int) -> None:
        self.frozen += 1
        if node != 1:
            raise NodeState("no such node")

    def flush(self, node: int) -> None:
        self.slow.set()
        assert self.go_on.wait(PATIENCE_S)

    def dropped(self, cut: Cut) -> int | None:
        return cut.src

    def heal(self) -> list[str]:
        self.healed.set()
        return []

    def down(self, *, keep_data: bool = False) -> None:
        self.ended.set()


class Line:
    """A connection to the socket."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        try:
            self.socket.connect(str(path))
        except OSError:
            self.socket.close()
            raise
        self._reader = self.socket.makefile("rb")

    def readline(self) -> bytes:
        return self._reader.readline()

    def write(self, line: bytes) -> None:
        self.socket.sendall(line)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self._reader.close()
        self.socket.close()


class Agent:
    """A server in a thread, and a client of it."""

    def __init__(self, path: Path, dead_man_s: float) -> None:
        self.machine = FakeMachine()
        self.lines: list[Line] = []
        self.path = path
        server = AgentServer(cast(Machine, self.machine), path, dead_man_s=dead_man_s)
        self.thread = threading.Thread(target=server.serve)
        self.thread.start()
        assert kernel.wait_until(path.exists, PATIENCE_S)

    def dial(self) -> Line:
        self.lines.append(Line(self.path))
        return self.lines[-1]

    def client(self, dead_man_s: float = LONG_S) -> AgentClient:
        return AgentClient(self.dial, dead_man_s=dead_man_s, label="the machine")


@contextlib.contextmanager
def agent(path: Path, dead_man_s: float = LONG_S) -> Iterator[Agent]:
    """It ends when it is told to."""
    made = Agent(path / "s", dead_man_s)
    try:
        yield made
    finally:
        made.machine.go_on.set()
        if made.thread.is_alive():
            client = made.client()
            client.call(Session.end, False)
            client.close()
        made.thread.join(PATIENCE_S)
    assert not made.thread.is_alive()


def test_calls_return_results_and_errors_in_any_order(tmp_path: Path) -> None:
    """A slow call does not delay the others."""
    with agent(tmp_path) as made:
        client = made.client()
        waiting = threading.Thread(target=client.call, args=(cast(Any, Disks.flush), 1))
        waiting.start()
        assert made.machine.slow.wait(PATIENCE_S)
        assert client.call(Links.dropped, Cut(2, 1)) == 2
        with pytest.raises(NodeState, match="the machine: no such node"):
            client.call(Disks.freeze, 9)
        client.ping()
        made.machine.go_on.set()
        waiting.join(PATIENCE_S)
        client.close()


def test_a_call_whose_answer_was_lost_is_executed_once(tmp_path: Path) -> None:
    """The next connection gets the answer."""
    with agent(tmp_path) as made:
        client = made.client()
        asked: list[object] = []
        waiting = threading.Thread(target=lambda: asked.append(client.call(Disks.flush, 1)))
        waiting.start()
        assert made.machine.slow.wait(PATIENCE_S)
        made.machine.slow.clear()
        made.lines[0].close()
        client.ping()
        made.machine.go_on.set()
        waiting.join(PATIENCE_S)
        assert asked == [None]
        assert not made.machine.slow.is_set(), "it was not begun again"
        assert len(made.lines) == 2
        client.close()


def test_silence_heals_the_machine_and_then_ends_the_agent(tmp_path: Path) -> None:
    """An open connection without calls counts as silence."""
    with agent(tmp_path, SOON_S) as made:
        line = made.dial()
        assert made.machine.healed.wait(PATIENCE_S)
        assert made.machine.ended.wait(PATIENCE_S)
        made.thread.join(PATIENCE_S)
        line.close()


def test_a_call_after_the_healing_fails(tmp_path: Path) -> None:
    """The run must not count a healed fault as in force."""
    with agent(tmp_path, 3.0) as made:
        assert made.machine.healed.wait(PATIENCE_S)
        client = made.client(3.0)
        with pytest.raises(TargetError, match="the machine: it received no call"):
            client.call(Disks.freeze, 1)
        assert made.machine.frozen == 0
        client.close()


def test_an_unreachable_machine_fails_all_calls(tmp_path: Path) -> None:
    """Waiting and later calls fail with the last error."""

    def nowhere() -> Line:
        raise TargetError("no route")

    client = AgentClient(nowhere, dead_man_s=SOON_S, label="the machine")
    for _ in range(2):
        with pytest.raises(TargetError, match=r"the machine has been unreachable for .* no route"):
            client.call(Disks.freeze, 1)
    client.close()
