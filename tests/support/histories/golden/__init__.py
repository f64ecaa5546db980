"""The golden histories, by family: one module for each, all of them in ALL_GOLDEN."""

from tests.support.histories.golden import (  # noqa: F401 - they register what they have
    assumptions,
    client_epochs,
    compacted,
    compacted_passes,
    consumers,
    contradictions,
    copies,
    deliveries,
    ended_transactions,
    group_topics,
    groups,
    hanging,
    internal_topics,
    last_standing,
    leadership,
    losses,
    order,
    outputs,
    progress,
    quorum_losses,
    reads,
    real_time,
    replicas,
    retention,
    standing_leaders,
    state_losses,
    transaction_order,
    transactions,
    unasked,
    unclean,
    unknown_producers,
    unread,
)
from tests.support.histories.golden.base import ALL_GOLDEN, Golden

__all__ = ["ALL_GOLDEN", "Golden"]
