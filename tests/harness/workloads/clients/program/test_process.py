"""Programs that end, hang or write nonsense: what their clients learn, and that none is left."""

import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.workloads.clients.program import process
from harness.workloads.clients.program.process import Program, ProgramFailed
from harness.workloads.clients.program.protocol import Answer, Event, Lost, Noted, Revoked

HEAD = """
import json, sys, time
def read(): return json.loads(sys.stdin.readline())
def write(**values): print(json.dumps(values), flush=True)
"""


@contextmanager
def program(body: str) -> Iterator[Program]:
    """A Python program; it is gone afterwards."""
    made = Program([sys.executable, "-c", HEAD + textwrap.dedent(body)])
    try:
        yield made
    finally:
        made.stop()
        assert made._process.poll() is not None


def ask(made: Program, do: str = "poll", client: int = 1) -> Answer:
    return made.ask(client, do, {}, within_s=0.0)


def ask_again(made: Program) -> None:
    """Ask until the program fails."""
    while True:
        ask(made)


def write_much(made: Program) -> None:
    """Write more than any pipe takes."""
    for _ in range(1_000):
        made.tell(1, "send", {"records": "x" * 10_000})


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is noticed soon."""
    monkeypatch.setattr(process, "SILENCE_S", 0.2)
    monkeypatch.setattr(process, "SLICE_S", 0.1)


def test_handler_may_ask_while_its_command_is_unanswered() -> None:
    """A member commits before it gives partitions up; then the poll goes on."""
    said: list[Event] = []
    with program(
        """
        poll = read()
        write(client=1, event="revoked", partitions=[0])
        commit = read()
        write(id=commit["id"], offset=commit["do"])
        resume = read()
        write(client=1, event="lost", partitions=[1])
        write(id=poll["id"], resumed=resume["do"])
        read()
        """
    ) as made:

        def handle(event: Event) -> None:
            said.append(event)
            if isinstance(event, Revoked):
                assert ask(made, "commit").values == {"offset": "commit"}
                made.tell(1, "resume", {})

        answer = made.ask(1, "poll", {}, within_s=60, handle=handle)
    assert answer.values == {"resumed": "resume"}
    assert said == [Revoked(client=1, partitions=[0]), Lost(client=1, partitions=[1])]


def test_events_wait_for_their_client() -> None:
    """Those of another client stay in its queue."""
    with program(
        """
        for client in (1, 2, 1): write(client=client, event="error", error=str(client))
        write(id=read()["id"])
        sys.stdin.read()
        """
    ) as made:
        ask(made, client=3)  # then all events have been read
        assert made.events(1, 0.0) == [Noted(client=1, error="1")] * 2
        assert made.events(1, 0.0) == []
        assert made.events(2, 0.0) == [Noted(client=2, error="2")]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("read(); sys.exit(3)", "the client program ended with code 3"),
        ("read(); sys.stdout.write('{'); sys.exit(0)", "the client program ended with code 0"),
        ("read(); print('hi', flush=True); read()", "it is not JSON: hi"),
        ("read(); write(id=99); read()", "answered command 99, which waits for no answer"),
        ("n = read()['id']; write(id=n, x=1); write(id=n); read()", "command 1, which waits for"),
    ],
)
def test_program_that_breaks_the_rules_ends_and_its_clients_learn_why(body: str, said: str) -> None:
    """All later calls fail with the same words."""
    with program(body) as made:
        for _ in range(2):
            with pytest.raises(ProgramFailed, match=said):
                ask_again(made)


@pytest.mark.usefixtures("impatient")
def test_silent_program_is_killed() -> None:
    """The error names the command and the client."""
    with program("time.sleep(1000)") as made:
        with pytest.raises(ProgramFailed, match=r"did not answer `poll` of client 1 within 0.2 s"):
            ask(made)
        assert made._process.wait(60) == -9


@pytest.mark.usefixtures("impatient")
def test_program_that_does_not_read_is_killed() -> None:
    """A full pipe must not hold up the client for ever."""
    with program("time.sleep(1000)") as made:
        with pytest.raises(ProgramFailed, match=r"read nothing for 0.2 s, and was killed"):
            write_much(made)
        assert made._process.wait(60) == -9


def test_program_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of its standard input should end it."""
    monkeypatch.setattr(process, "END_S", 0.2)
    with program("write(id=read()['id']); time.sleep(1000)") as made:
        ask(made)
    assert made._process.returncode == -9


def test_missing_program_is_named() -> None:
    """The error is about the command of the plan."""
    with pytest.raises(ProgramFailed, match=r"program \./nowhere cannot be started: No such file"):
        Program(["./nowhere"])
