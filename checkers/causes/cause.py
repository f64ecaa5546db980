"""What a cause is: an event of one partition that can explain losses. See `causes`."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from checkers.causes.leadership_terms import LAST_EPOCH, Partition
from checkers.causes.state_loss import StateLoss
from checkers.history.settings import Settings

SLACK_NS = 2_000_000_000
"""How long after its fault's end, or after an election nobody resisted, a deposed leader may need
to learn of it, where nobody saw it learn; and a client to find the new leader."""

STALE_NS = 10_000_000_000
"""How long after all that it concerns know of an election a client may go on sending to the old
leader that asks for no acknowledgement, and so is told of no error: it hears of another leader when
it asks for metadata, which may fail some times."""

NO_LEADER = -1

SettingsOf = Callable[[str], Settings]
"""The least that was ever promised to the topic of this name."""


class CauseKind(StrEnum):
    """What kind of event explains a loss."""

    ELECTION = "election"
    STATE_LOSS = "state-loss"
    QUORUM_LOSS = "quorum-loss"
    FAULT = "fault"
    REFUSAL = "refusal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One event of one partition that can explain losses.

    from_ns .. near_until_ns: when clients may have felt it; felt_until_ns: when those may have who
    ask for no acknowledgement, and so are refused without a word, also by a leader that does not
    know yet that it is. start_offset: everything at or above
    it that the deposed leader held was cut; None where that was not read. until_ns: the last moment
    at which the deposed leader may have accepted a write. others_until_ns: the last one at which
    any other node may have, of what the deposed leader held: who led before it and did not know was
    deposed by another election. left_isr: the new leader was not in the
    in-sync replicas; sole_isr: they were the deposed leader alone. vanished_ns: since when a
    deposed leader, or after an election from outside the in-sync replicas whoever it was, led of
    whose epochs the final log has no record: whatever was accepted is gone, even below the next
    epoch's start, where an older tail took its place (KIP-279). lost: of a state loss. chain: the
    last epoch that begins at start_offset in the final log; causes that share it cannot be told
    apart by offset. chain_from_ns: since when a leader was in power whose records are in the final
    log right before start_offset: who wrote before lost nothing by this.
    faults: the numbers of those that it lays blame on. only_delays: of a fault that loses nothing
    by itself. returns: the leader had led before, so that clients may have sent to it without
    having heard of this. refused: of a refusal, the partition that was led no more, and the leader
    epoch that began there.
    strength: the least of it explains the loss of an acks=all write best. strength_alone: of those
    that cannot be told apart, the least explains best that of a write which its leader alone had.
    """

    kind: CauseKind
    topic: str
    partition: int
    text: str
    from_ns: int
    near_until_ns: int
    felt_until_ns: int = 0
    epoch: int | None = None
    leader: int | None = None
    deposed: int | None = None
    start_offset: int | None = None
    elected_ns: int | None = None
    until_ns: int | None = None
    others_until_ns: int | None = None
    left_isr: bool = False
    sole_isr: bool = False
    vanished_ns: int | None = None
    lost: StateLoss | None = None
    chain: int = LAST_EPOCH
    chain_from_ns: int = 0
    strength: int = 3
    strength_alone: int = 0
    faults: frozenset[int] = frozenset()
    only_delays: bool = False
    returns: bool = False
    refused: tuple[Partition, int] | None = None

    @property
    def of_state(self) -> bool:
        """Replicas lost what they had, however long they had had it."""
        return self.lost is not None or self.kind is CauseKind.QUORUM_LOSS

    def took_committed(self, settings: Settings) -> bool:
        """Whether a partition of these settings may have lost committed records by it."""
        if self.kind is CauseKind.QUORUM_LOSS:
            return True
        if self.lost is not None:
            return self.lost.toll(settings) is not None
        return self.left_isr and (
            settings.unclean_election or (settings.min_insync_replicas <= 1 and self.sole_isr)
        )
