"""The options of a workload's producer, independent of the library."""

from dataclasses import dataclass

from harness.workloads.clients.access import OPEN, Access


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    """Options of a producer.

    `bootstrap`: host:port, comma-separated; `acks`: 0, 1, -1. A message may wait `linger_ms` for
    others, and is given up after `message_timeout_ms`.
    """

    bootstrap: str
    acks: int
    idempotence: bool
    linger_ms: float
    message_timeout_ms: int
    access: Access = OPEN
