"""What a kind of workload of another package is: its keys, its topics, and what its clients do.

A package declares a kind by an entry point of the group `highwater.workloads`. The entry point
names a subclass of `WorkloadKind`, and its name is the `kind` in plans. The clients are real: they
run in a process of their own and connect to the cluster, so a simulated cluster cannot have them.

`Clients` makes the producers and consumers. They write the rows of the history, which all detectors
judge as those of any other workload: `send` for each record that is sent, `assign` and `poll` for
what is read. A kind writes no rows by itself.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, NamedTuple, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

RESERVED: Final = frozenset(
    {
        "client_command", "group", "group_metadata", "input", "ordered_by", "output", "processing",
        "protocol", "topic", "transaction_timeout_ms",
    }
)  # fmt: skip
"""Keys whose meaning in a plan's workload is fixed: verdicts are made by them."""


class Record(NamedTuple):
    """A record that a consumer read."""

    partition: int
    offset: int
    key: bytes | None
    value: int | None
    """What `Producer.send` returned for it; None: another run wrote the record, or it is damaged.
    """


class Producer(Protocol):
    """Sends records to one topic, with the acks and the idempotence that the plan gives the topic.
    For the thread that made it."""

    @property
    def pending(self) -> int:
        """How many sends have no outcome yet."""
        ...

    def send(self, partition: int, key: bytes | None = None) -> int:
        """Start one send. Return the number of the record's value, which is unique in the run."""
        ...

    def poll(self, timeout_s: float) -> None:
        """Record outcomes; wait up to `timeout_s` for the first. Call it often."""
        ...


class Consumer(Protocol):
    """Reads partitions of one topic from their first record on. For the thread that made it."""

    def poll(self, timeout_s: float) -> Sequence[Record]:
        """Return the next records; wait up to `timeout_s` for the first."""
        ...


class Clients(Protocol):
    """Makes the clients of a workload, and says when it is over. Clients are closed by themselves
    when the function that made them returns."""

    @property
    def partitions(self) -> Mapping[str, int]:
        """The number of partitions of each topic that the workload uses."""
        ...

    def stopped(self) -> bool:
        """Whether the workload shall end."""
        ...

    def sleep(self, seconds: float) -> bool:
        """Wait so long, or until the workload shall end. Return whether it goes on."""
        ...

    def producer(self, topic: str) -> Producer:
        """Make a producer for a topic."""
        ...

    def consumer(self, topic: str, partitions: Collection[int] | None = None) -> Consumer:
        """Make a consumer of these partitions of a topic; None: of all."""
        ...


class WorkloadKind(BaseModel, ABC):
    """The keys of a workload. A subclass adds its own keys, and says what its clients do."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )
    OWN_KEYS: ClassVar = ("kind", "client", "topics", "value_bytes")

    kind: str
    """The kind of workload: the name that its package declares."""
    client: Literal["librdkafka"] = "librdkafka"
    """The client library."""
    value_bytes: int = Field(default=128, ge=64, le=1_000_000)
    """Size of a record's value, bytes."""
    topics: tuple[str, ...] = ()
    """The topics that the workload writes to. Leave it out: other keys say it."""

    @abstractmethod
    def writes(self) -> Sequence[str]:
        """Return the topics that the workload writes to. Other producers leave them alone unless
        the plan names them."""

    def reads(self) -> Sequence[str]:
        """Return further topics, which the workload only reads."""
        return ()

    @abstractmethod
    def runs(self, clients: Clients) -> Sequence[Callable[[], None]]:
        """Return what each thread of the workload does. Each function returns soon after
        `clients.stopped()`. An error that a function raises ends the workload, and the run is
        useless."""

    @model_validator(mode="after")
    def _topics_are_those_of_other_keys(self) -> Self:
        found = tuple(dict.fromkeys(self.writes()))
        if self.topics not in ((), found):
            raise ValueError(f"topics: remove it; this workload writes to {', '.join(found)}")
        # A verdict needs it from the stored plan, without the package.
        object.__setattr__(self, "topics", found)
        return self


def why_not(found: Any) -> str | None:
    """Return why what an entry point names is no kind of workload; None if it is one."""
    if not isinstance(found, type) or not issubclass(found, WorkloadKind):
        return f"{found!r} is no subclass of WorkloadKind (harness.plans.workload_kind)"
    if missing := sorted(found.__abstractmethods__):
        return f"{found.__name__} has no method {' and no method '.join(missing)}"
    if taken := sorted(RESERVED & set(found.model_fields)):
        return (
            f"the key {taken[0]} of {found.__name__} has a fixed meaning in plans; give it another "
            "name"
        )
    if changed := sorted(set(WorkloadKind.OWN_KEYS) & set(found.__annotations__)):
        return f"{found.__name__} changes the key {changed[0]} of WorkloadKind; remove it there"
    return None
