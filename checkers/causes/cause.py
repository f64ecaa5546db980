"""What a cause is: an event of one partition that can explain losses. See `causes`."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from checkers.causes.leadership_terms import LAST_EPOCH, Partition
from checkers.causes.state_loss import StateLoss
from checkers.history.settings import Settings

SLACK_NS = 2_000_000_000
"""How long a deposed leader may need to learn of an election, if it was not seen to learn: after
the end of its fault, or after an election without a fault. A client may need as long to find the
new leader."""

STALE_NS = 10_000_000_000
"""How long an acks=0 client may go on sending to the old leader after all nodes concerned know of
an election. It gets no error, and learns of the new leader only by a metadata request, which may
fail some times."""

NO_LEADER = -1

SettingsOf = Callable[[str], Settings]
"""The weakest settings that the topic of this name ever had."""


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

    from_ns .. near_until_ns: when the event may have affected clients.
    felt_until_ns: the same for acks=0 clients, which are refused without an answer; a new leader
    that does not know yet that it leads refuses them too.
    start_offset: the deposed leader discarded its records at or above this offset; None if the
    offset was not read.
    until_ns: the last moment at which the deposed leader may have accepted a write.
    others_until_ns: the last moment at which any other node may have accepted a write that the
    deposed leader held (an earlier leader that did not know was deposed by another election).
    shown_until_ns: the last moment at which any node that had led before, and did not know of a
    later leader, may have shown readers what was gone by then; None if what they read is never
    taken, or if that is not known.
    dead_from_ns: from when on no process of the deposed leader was left that knew of its term, and
    no earlier leader that did not; None if that is not known.
    left_isr: the new leader was not in the in-sync replicas. sole_isr: the deposed leader was the
    only in-sync replica.
    vanished_ns: since when the deposed leader led in epochs of which the final log has no record
    (after an election from outside the in-sync replicas, or a state loss: since when any leader
    did). All records
    that were accepted since are gone, even below the start of the next epoch, where an older tail
    replaced them (KIP-279).
    lost: the replicas that lost state, for a state loss.
    chain: the last epoch that begins at start_offset in the final log; offsets do not distinguish
    causes with the same chain.
    chain_from_ns: since when the leader led whose records are right before start_offset in the
    final log; earlier writes were not lost by this cause.
    faults: the numbers of the faults that the cause names. only_delays: the fault alone loses
    nothing. returns: the leader had led before, so clients may have sent to it without knowledge of
    this election.
    refused: for a refusal, the partition whose leader changed, and the leader epoch that began.
    strength: the smallest value explains the loss of an acks=all write best. strength_alone: among
    causes that are not distinguished, the smallest value explains best the loss of a write that
    only its leader had.
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
    shown_until_ns: int | None = None
    dead_from_ns: int | None = None
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
        """Replicas lost state, no matter how long they had held it."""
        return self.lost is not None or self.kind is CauseKind.QUORUM_LOSS

    def took_committed(self, settings: Settings) -> bool:
        """Whether a partition with these settings may have lost committed records by this cause."""
        if self.kind is CauseKind.QUORUM_LOSS:
            return True
        if self.lost is not None:
            return self.lost.all_copies_lost(settings) is not None
        return self.left_isr and (
            settings.unclean_election or (settings.min_insync_replicas <= 1 and self.sole_isr)
        )
