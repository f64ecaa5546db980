"""What our own clients get from outside, so that a simulated loop can run them."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.admin.client import parse_bootstrap
from harness.workloads.clients import access
from harness.workloads.clients.own.answer_codes import OnAnswer
from harness.workloads.clients.own.cluster import Cluster, Timing
from harness.workloads.clients.own.consumer import ConsumerSettings
from harness.workloads.clients.own.recording import WORKLOAD_CONSUMER
from nodes.wire.security import PLAINTEXT_CLIENT, ClientSecurity


@dataclass(slots=True, kw_only=True)
class ClientEnvironment:
    """What clients get from outside: randomness, the time of day, time limits, the sizes of
    fetches. `on_answer` gets each answer of a broker."""

    rng: random.Random
    wall_clock_ms: Callable[[], int]
    timing: Timing = field(default_factory=Timing)
    consumer: ConsumerSettings = WORKLOAD_CONSUMER
    security: ClientSecurity = PLAINTEXT_CLIENT
    on_answer: OnAnswer | None = None

    def connect(self, bootstrap: str, topic: str, client: int) -> Cluster:
        """Return a client's own view of the cluster and of a topic, with randomness of its own."""
        return Cluster(
            parse_bootstrap(bootstrap),
            topic,
            client_id=f"highwater-{client}",
            rng=random.Random(self.rng.getrandbits(64)),
            timing=self.timing,
            security=self.security,
            on_answer=self.on_answer,
        )

    @classmethod
    def of_this_process(cls) -> "ClientEnvironment":
        """Return the environment of a real process."""
        return cls(
            rng=random.Random(),
            wall_clock_ms=lambda: time.time_ns() // 1_000_000,
            security=access.of_this_process().channel(),
        )
