"""Kafka's own group coordinator for classic groups, without a broker around it, in a process.

It takes JSON lines (ClassicCoordinator.java). Binary data is hexadecimal.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from nodes.coordinators.records import CoordinatorRecord
from tests.support.require import KAFKA_JARS

PROGRAM = "ClassicCoordinator"


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of a request: answers by token, also to earlier requests, and the groups then."""

    answers: dict[int, dict[str, Any]]
    records: list[CoordinatorRecord]
    groups: dict[str, dict[str, Any]]


class KafkaCoordinator:
    """The process, from outside."""

    def __init__(self, requests: IO[str], replies: IO[str]) -> None:
        self._requests = requests
        self._replies = replies

    def ask(self, op: str, token: int = 0, **fields: Any) -> Reply:
        """Send one request, and wait for what comes of it."""
        self._requests.write(json.dumps({"op": op, "token": token, **fields}) + "\n")
        self._requests.flush()
        line = next((each for each in self._replies if each.startswith('{"answers"')), None)
        assert line is not None, "the process ended"
        reply = json.loads(line)
        return Reply(
            {int(token): answer for token, answer in reply["answers"].items()},
            [CoordinatorRecord(*(_bytes(part) for part in each)) for each in reply["records"]],
            reply["groups"],
        )


def _bytes(text: str | None) -> Any:
    return None if text is None else bytes.fromhex(text)


@contextmanager
def running(classes: Path, **properties: object) -> Iterator[KafkaCoordinator]:
    """Run the compiled program with Kafka's properties (_ for the dots)."""
    settings = [f"{name.replace('_', '.')}={value}" for name, value in properties.items()]
    main = f"org.apache.kafka.coordinator.group.{PROGRAM}"
    with subprocess.Popen(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{KAFKA_JARS}/*:{classes}", main, *settings],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield KafkaCoordinator(process.stdin, process.stdout)
        process.stdin.close()
