"""The requests that a process with a cluster answers; see `protocol`.

The breaker is made at the first request that needs one: it watches the cluster, which costs.
"""

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from harness.run.by_hand.attached import Attached
from harness.run.by_hand.faults_of_journal import Row, list_faults
from harness.run.by_hand.protocol import PROVE_S, SETTLE_S
from harness.run.by_hand.server import Handler

if TYPE_CHECKING:
    from harness.run.by_hand.breaker import Breaker


class BreakingHandlers:
    """Inject, heal, list and settle, on one cluster. Any thread may call."""

    def __init__(self, cluster: Attached, *, client_port: int | None = None) -> None:
        """`client_port`: where clients reach the nodes, if that is not where brokers do."""
        self._cluster = cluster
        self._client_port = client_port
        self._mutex = threading.Lock()
        self._breaker: Breaker | None = None

    def handlers(self) -> Mapping[str, Handler]:
        """The requests by name."""
        return {
            "inject": self.inject,
            "heal": lambda id: self.breaker().heal(int(id)),
            "heal-all": lambda: self.breaker().heal_all(),
            "faults": self.faults,
            "in-force": self.in_force,
            "settle": lambda timeout_s=SETTLE_S: self.breaker().settle(float(timeout_s)),
        }

    def breaker(self) -> "Breaker":
        """The breaker; the first call makes it, and takes over what the journal has in force."""
        from harness.run.by_hand.breaker import Breaker  # its imports are slow

        with self._mutex:
            if self._breaker is None:
                self._breaker = Breaker(self._cluster, client_port=self._client_port)
            return self._breaker

    def inject(
        self,
        fault: str,
        targets: str = "",
        params: Mapping[str, str] | None = None,
        duration_ms: int | None = None,
        prove_s: float = PROVE_S,
    ) -> Row:
        """See `Breaker.inject`."""
        return self.breaker().inject(
            fault, targets, params, duration_ms=duration_ms, prove_s=prove_s
        )

    def faults(self) -> list[Row]:
        """All faults; without a breaker, what the journal says."""
        if self._breaker is None:
            return list_faults(self._cluster.journal.records())
        return self._breaker.faults()

    def in_force(self) -> list[int]:
        """The ids of the faults in force."""
        return [row["id"] for row in self.faults() if row["state"] == "in force"]

    def close(self) -> list[str]:
        """Heal everything; return what could not be undone."""
        with self._mutex:
            return [] if self._breaker is None else self._breaker.close()
