"""The golden histories, by family: one module for each, all of them in ALL_GOLDEN."""

from tests.histories.golden import (
    assumptions,
    client_epochs,
    consumers,
    leadership,
    losses,
    order,
    progress,
    quorum_losses,
    reads,
    real_time,
    replicas,
    state_losses,
    unread,
)
from tests.histories.golden.base import ALL_GOLDEN, Golden

FAMILIES = (
    assumptions,
    client_epochs,
    consumers,
    leadership,
    losses,
    order,
    progress,
    quorum_losses,
    reads,
    real_time,
    replicas,
    state_losses,
    unread,
)

__all__ = ["ALL_GOLDEN", "FAMILIES", "Golden"]
