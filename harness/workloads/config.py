"""The configuration of one client process: a flat, frozen record, which is passed as JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from harness.plans.app_workload import AppWorkload
from harness.plans.workload_kind import WorkloadKind
from harness.plans.workloads import FurtherWorkload, GroupWorkload
from harness.workloads.clients.access import Access
from harness.workloads.clients.options import ProducerOptions

LOOPBACK: Final = "127.0.0.1"
ACKS_ALL: Final = -1
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
"""Isolation levels."""
CLIENTS_PER_PROCESS: Final = 1_000
"""How many client numbers one process owns. The harness's own clients have lower numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """The clients of one topic.

    `first_client` is the number of the process's first client, and numbers its operations too:
    every producer or consumer takes the next number. `rate_per_s` is per producer; 0 means as fast
    as `max_in_flight` unanswered messages per producer allow. After `sends_per_producer` sends a
    producer is replaced; 0 means never. `insists` and `zombie_batches` are for client `own`, see
    `harness.workloads.clients.own`. `drain_ms` bounds how long producers wait for
    outcomes after a stop. For `rotate_s` see `harness.recording.history.HistoryWriter`.
    """

    run_id: str
    base_ns: int
    history_dir: str
    first_client: int
    bootstrap: str
    topic: str
    partitions: int
    acks: int
    idempotence: bool
    producers: int
    consumers: int
    rate_per_s: float
    value_bytes: int
    max_in_flight: int
    linger_ms: float
    message_timeout_ms: int
    sends_per_producer: int = 0
    insists: bool = False
    zombie_batches: bool = False
    drain_ms: int = 5_000
    rotate_s: float | None = None
    command: Sequence[str] = field(default_factory=list)
    """The command of the client program, if one runs the clients."""
    text: bool = False
    """Values are JSON with an id, for a tested program; see `clients.text_payload`."""
    read_committed: bool = False
    """Consumers read the records of committed transactions only; else nobody writes any."""
    keys: Sequence[float] = field(default_factory=list)
    """Of a compacted topic: how producers choose keys, see `clients.keyed_sends.Keys`."""
    passes_every_s: float = 0.0
    """Of a compacted topic: how long its reader pauses between two passes; 0: it has no reader."""

    @property
    def name(self) -> str:
        """The name of the process."""
        return self.topic

    @property
    def writes(self) -> bool:
        """Whether the process has producers."""
        return self.producers > 0

    @property
    def isolation(self) -> int | None:
        """The isolation level of the consumers; None: nobody writes transactions."""
        return READ_COMMITTED if self.read_committed else None

    def producer_options(self, access: Access) -> ProducerOptions:
        """Return the options of each producer. `access` is not saved, because it has secrets."""
        return ProducerOptions(
            bootstrap=self.bootstrap,
            acks=self.acks,
            idempotence=self.idempotence,
            linger_ms=self.linger_ms,
            message_timeout_ms=self.message_timeout_ms,
            access=access,
        )

    def save(self, path: Path) -> None:
        """Write as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2, sort_keys=True) + "\n")

    @classmethod
    def load(cls, path: Path) -> "ClientConfig":
        """Read what `save` wrote. Raises OSError, ValueError, TypeError for any other file."""
        return cls(**json.loads(path.read_text()))


@dataclass(frozen=True, kw_only=True)
class FurtherConfig:
    """The clients of one further workload of the plan.

    `workload` is the plan's table. `partitions` has the number of partitions of each topic that the
    workload uses, and `transactional` the topics among them that get records in transactions.
    A workload of another package writes with `topic_acks`, and to `idempotent` topics with
    idempotent producers.
    With `clocks` each instance of a tested program has a wall clock of its own. The program
    runs in the network `namespace`, if there is one, and reaches this process at `address`. For the
    other fields see `ClientConfig`.
    """

    run_id: str
    base_ns: int
    history_dir: str
    first_client: int
    bootstrap: str
    name: str
    workload: Mapping[str, Any]
    partitions: Mapping[str, int]
    transactional: Sequence[str] = ()
    topic_acks: Mapping[str, int] = field(default_factory=dict)
    idempotent: Sequence[str] = ()
    command: Sequence[str] = ()
    drain_ms: int = 5_000
    rotate_s: float | None = None
    clocks: bool = False
    namespace: str | None = None
    address: str = LOOPBACK

    @property
    def acks(self) -> int:
        """What producers wait for: all in-sync replicas."""
        return ACKS_ALL

    def acks_of(self, topic: str) -> int:
        """Return what the producers of a topic wait for."""
        return self.topic_acks.get(topic, ACKS_ALL)

    @property
    def writes(self) -> bool:
        """Whether the process has producers."""
        wanted = self.wanted
        if isinstance(wanted, WorkloadKind):
            return bool(wanted.topics)
        return not isinstance(wanted, GroupWorkload)

    @property
    def app(self) -> AppWorkload | None:
        """The workload, if it is a program that is tested."""
        return self.wanted if isinstance(self.wanted, AppWorkload) else None

    @cached_property
    def wanted(self) -> FurtherWorkload:
        """The workload, validated."""
        return _WORKLOAD.validate_python(self.workload)

    def isolation(self, topic: str) -> int | None:
        """Return the isolation level of the readers of a topic; None: nobody writes transactions to
        it."""
        if topic not in self.transactional:
            return None
        wanted = self.wanted
        early = isinstance(wanted, GroupWorkload) and wanted.isolation == "read_uncommitted"
        return READ_UNCOMMITTED if early else READ_COMMITTED

    def save(self, path: Path) -> None:
        """Write as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2, sort_keys=True) + "\n")


_WORKLOAD: Final[TypeAdapter[FurtherWorkload]] = TypeAdapter(FurtherWorkload)

AnyConfig = ClientConfig | FurtherConfig


def load(path: Path) -> AnyConfig:
    """Read what `save` wrote. Raises OSError, ValueError, TypeError for any other file."""
    values = json.loads(path.read_text())
    return FurtherConfig(**values) if "workload" in values else ClientConfig(**values)
