"""A broker forgets a producer that wrote nothing for long, also if its transaction is open.

The marker finds no transaction that it could end: readers of committed records wait for ever.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.log.producer_state import Producers

BUG = "an idle producer is forgotten with its open transaction"
SOURCES = ("KAFKA-9144",)
SHOWS = ("hanging-transaction", "unavailable")


def forget_idle(self: Producers, now_ms: int, expiration_ms: int) -> int:
    """Forget everybody who is idle."""
    idle = [
        producer_id
        for producer_id, producer in self._by_id.items()
        if now_ms - producer.last_timestamp >= expiration_ms
    ]
    for producer_id in idle:
        del self._by_id[producer_id]
        self._forgotten[producer_id] = None
    return len(idle)


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(Producers, forget_idle=forget_idle)


if __name__ == "__main__":
    run(apply)
