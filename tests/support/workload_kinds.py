"""What packages with kinds of workloads of their own might declare."""

import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from pydantic import Field

from harness.plans.workload_kind import Clients, Record, WorkloadKind

DECLARED = {
    name: f"{__name__}:{what}"
    for name, what in {
        "echo": "Echo",
        "half": "Half",
        "mute": "Mute",
        "grouped": "Grouped",
        "longer": "Longer",
        "vague": "Vague",
        "object": "DECLARED",
        "group": "Echo",
    }.items()
}
"""The entry points: a kind, and kinds that are wrong."""


class Echo(WorkloadKind):
    """Sends records with keys to one topic and reads them back."""

    there: str
    """Where the records are."""
    also: tuple[str, ...] = ()
    """Topics that are only read."""
    sends: int = Field(default=5, ge=1)
    """How many sends."""
    read: ClassVar[list[Record]] = []

    def writes(self) -> Sequence[str]:
        """Return the topic."""
        return (self.there,)

    def reads(self) -> Sequence[str]:
        """Return the topics that are only read."""
        return self.also

    def runs(self, clients: Clients) -> Sequence[Callable[[], None]]:
        """Return one function."""
        return [lambda: self._echo(clients)]

    def _echo(self, clients: Clients) -> None:
        producer, consumer = clients.producer(self.there), clients.consumer(self.there, [1])
        sent = {producer.send(1, key=b"k%d" % n): n for n in range(self.sends)}
        deadline_s = time.monotonic() + 30
        while len(Echo.read) < len(sent) and time.monotonic() < deadline_s:
            producer.poll(0.01)
            Echo.read.extend(consumer.poll(0.05))
        while clients.sleep(0.01):
            pass


class Half(WorkloadKind):
    """Does nothing."""

    def writes(self) -> Sequence[str]:
        """Return nothing."""
        return ()


class Mute(Echo):
    """Raises an error of its own."""

    def writes(self) -> Sequence[str]:
        """Raise an error."""
        raise RuntimeError("not today")


class Grouped(Echo):
    """Has a key that means something else."""

    group: str = "g"


class Longer(Echo):
    """Changes a key of all kinds."""

    value_bytes: int = 1


class Vague(Echo):
    """Asks for a topic that it did not name."""

    def _echo(self, clients: Clients) -> None:
        clients.producer("elsewhere")
