"""Makes what watches an ensemble, if there is one; its libraries are loaded only then."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from harness.systems.ensemble.probe import Address

if TYPE_CHECKING:
    from harness.systems.ensemble.watch import EnsembleWatch


def watch_of(
    zookeepers: Mapping[int, Address], now_ns: Callable[[], int]
) -> "EnsembleWatch | None":
    """Return what watches the ZooKeeper servers at these addresses; None without any."""
    if not zookeepers:
        return None
    from harness.systems.ensemble.watch import EnsembleWatch

    return EnsembleWatch(zookeepers, now_ns)
