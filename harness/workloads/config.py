"""The configuration of the clients of a topic: a flat, frozen record, which is passed as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

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
