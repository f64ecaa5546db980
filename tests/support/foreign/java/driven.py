"""Kafka's own consumers and producers in one Java process, driven by a test: `Driven.java`.

A test makes clients, gives them commands, and waits for what happens to them. Tests may use one
process after each other: `close_all` ends the clients of one.
"""

import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

from tests.support.require import KAFKA_JARS

PATIENCE_S: Final = 90.0
"""The bound of every wait, far above what a busy machine needs."""
PROGRAM: Final = "Driven"

Event = Mapping[str, Any]


class Refused(Exception):
    """The client's error: `kind` is its Java class without the package."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Driven:
    """The process and what it has printed."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._numbers = count(1)
        self._changed = threading.Condition()
        self._answers: dict[int, Event] = {}
        self._events: list[Event] = []
        self._open: set[str] = set()
        self._has_ended = False
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.startswith("{"):
                continue  # the client library's own output
            row = json.loads(line)
            with self._changed:
                if "id" in row:
                    self._answers[row["id"]] = row
                else:
                    self._events.append(row)
                self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def begin(self, client: str, do: str, **values: Any) -> int:
        """Send a command; return its number for `end`."""
        number = next(self._numbers)
        assert self._process.stdin is not None
        command = {"id": number, "client": client, "do": do, **values}
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return number

    def end(self, number: int) -> Any:
        """Return the result of a command. Raises Refused."""
        self._wait(lambda: number in self._answers, f"command {number} to end")
        answer = self._answers[number]
        if "error" in answer:
            raise Refused(answer["error"], answer["message"])
        return answer["result"]

    def call(self, client: str, do: str, **values: Any) -> Any:
        """Send a command and return its result. Raises Refused."""
        result = self.end(self.begin(client, do, **values))
        if do in ("consumer", "producer"):
            self._open.add(client)
        elif do == "close":
            self._open.discard(client)
        return result

    def close_all(self) -> None:
        """Close the clients that are open, side by side, and forget what has happened."""
        closing = [self.begin(client, "close") for client in sorted(self._open)]
        for number in closing:
            self.end(number)
        self._open.clear()
        with self._changed:
            self._events.clear()

    def consumer(self, client: str, group: str, *topics: str, **config: str) -> None:
        """Make a consumer that subscribes to topics; underscores in `config` stand for dots.

        It reads from the beginning and commits only when it is told to.
        """
        settings = {
            "group.id": group,
            "client.id": client,
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
            **_dotted(config),
        }
        self.call(client, "consumer", config=settings)
        if topics:
            self.call(client, "subscribe", topics=topics)

    def producer(self, client: str, transactional_id: str | None = None, **config: str) -> None:
        """Make a producer; with a transactional id, initialise its transactions."""
        settings = _dotted(config)
        if transactional_id is not None:
            settings["transactional.id"] = transactional_id
        self.call(client, "producer", config=settings)
        if transactional_id is not None:
            self.call(client, "init")

    def events(self, client: str, *kinds: str) -> list[Event]:
        """Return what has happened to a client so far, of these kinds or of all."""
        with self._changed:
            return [
                each
                for each in self._events
                if each["client"] == client and (not kinds or each["event"] in kinds)
            ]

    def values(self, client: str) -> list[str]:
        """Return the values of the records that a consumer has read so far."""
        return [each["value"] for each in self.events(client, "record")]

    def owned(self, client: str) -> set[str]:
        """Return the partitions that a consumer has been assigned and still has."""
        owned: set[str] = set()
        for each in self.events(client, "assigned", "revoked", "lost"):
            if each["event"] == "assigned":
                owned |= set(each["partitions"])
            else:
                owned -= set(each["partitions"])
        return owned

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait until something holds, looking again at each event."""
        self._wait(holds, what)

    def _wait(self, holds: Callable[[], object], what: str) -> None:
        with self._changed:
            held = self._changed.wait_for(lambda: holds() or self._has_ended, PATIENCE_S)
            assert held, f"waited {PATIENCE_S:g} s for {what}; events: {self._events[-20:]}"
            assert holds(), f"the process ended before {what}"

    def close(self) -> None:
        """End the process at once, with all its clients, as a kill does."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


def _dotted(config: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in config.items()}


@contextmanager
def driven(bootstrap: str, classes: Path) -> Iterator[Driven]:
    """Run the program, whose compiled classes are there."""
    process = subprocess.Popen(
        [
            *("java", "-XX:TieredStopAtLevel=1", "-Xmx256m"),
            *("-cp", f"{KAFKA_JARS}/*:{classes}", PROGRAM, bootstrap),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    clients = Driven(process)
    try:
        yield clients
    finally:
        clients.close()
