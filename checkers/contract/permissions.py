"""What permits an anomaly, and what would have prevented it.

A row of the contract that permits something names the settings that it takes, and changes of
settings each of which alone takes the row out of force. Both are fields of `Settings`: tests hold
every claim against the contract itself. For people they become Kafka's properties.
Where no setting permits it (a lost disk), or none prevents it, words stand in their place.

Sources: the Kafka documentation of the properties; KIP-966 (eligible leader replicas, min.insync.
replicas above the losses to be borne); KIP-101 (what acks=1 loses at a change of leadership).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Values = Mapping[str, int | bool]
"""Fields of Settings, and their values."""

_PROPERTIES: Final[Mapping[str, str]] = {
    "acks": "acks",
    "idempotence": "enable.idempotence",
    "min_insync_replicas": "min.insync.replicas",
    "unclean_election": "unclean.leader.election.enable",
    "flush_before_ack": "flush.messages",
    "eligible_leader_replicas": "eligible.leader.replicas.version",
    "max_in_flight": "max.in.flight.requests.per.connection",
}
_NO_FLUSH: Final = "no flush before the acknowledgement (flush.messages)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One change that prevents it: of settings, or in words where no setting does it."""

    values: Values
    words: str = ""

    @property
    def text(self) -> str:
        """Such as `acks=all with min.insync.replicas=2`."""
        return " ".join(filter(None, (as_properties(self.values), self.words)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """What permits an anomaly (`values`, or `words` for what is no setting), and its remedies, each
    of which is enough alone."""

    values: Values
    words: str = ""
    remedies: tuple[Remedy, ...]

    @property
    def permitted_by(self) -> str:
        """Such as `unclean.leader.election.enable=true`."""
        return as_properties(self.values) or self.words

    @property
    def prevented_by(self) -> tuple[str, ...]:
        """Each of the remedies in words."""
        return tuple(remedy.text for remedy in self.remedies)

    def as_json(self) -> dict[str, Any]:
        """As verdict.json has it, with the row and with what the row permitted."""
        return {"permitted_by": self.permitted_by, "prevented_by": list(self.prevented_by)}


def as_properties(values: Values) -> str:
    """The values as Kafka's properties: `acks=all with min.insync.replicas=2`."""
    return " with ".join(_as_property(name, value) for name, value in values.items())


def _as_property(name: str, value: int | bool) -> str:
    match name, value:
        case "acks", -1:
            return "acks=all"
        case "flush_before_ack", False:
            return _NO_FLUSH
        case (("flush_before_ack" | "eligible_leader_replicas"), _):
            return f"{_PROPERTIES[name]}={int(value)}"
        case _, bool():
            return f"{_PROPERTIES[name]}={str(value).lower()}"
        case _:
            return f"{_PROPERTIES[name]}={value}"


def by(values: Values, *remedies: Remedy) -> Permission:
    """What these settings together permit."""
    return Permission(values=values, remedies=remedies)


def by_no_setting(words: str, *remedies: Remedy) -> Permission:
    """What happens whatever is configured."""
    return Permission(values={}, words=words, remedies=remedies)


def set_to(words: str = "", **values: int | bool) -> Remedy:
    """A change of settings, with what else is to be said of it."""
    return Remedy(values=values, words=words)


def do(words: str) -> Remedy:
    """What no setting does."""
    return Remedy(values={}, words=words)


ACKS_ALL: Final = set_to("(and replication factor 3)", acks=-1, min_insync_replicas=2)
IN_SYNC_2: Final = set_to("(and replication factor 3)", min_insync_replicas=2)
CLEAN_ELECTIONS: Final = set_to(unclean_election=False)
FLUSH: Final = set_to(flush_before_ack=True)
ELIGIBLE_LEADERS: Final = set_to(eligible_leader_replicas=True)
ELIGIBLE_IN_SYNC_2: Final = set_to(
    "(and replication factor 3)", min_insync_replicas=2, eligible_leader_replicas=True
)
IDEMPOTENCE: Final = set_to("(which needs acks=all)", idempotence=True)
APART: Final = do("more in-sync replicas (min.insync.replicas) than can lose power together")

ACKS_0: Final = by({"acks": 0}, ACKS_ALL)
ACKS_1: Final = by({"acks": 1}, ACKS_ALL)
ACKS_1_UNFLUSHED: Final = by({"acks": 1, "flush_before_ack": False}, ACKS_ALL, FLUSH)
UNCLEAN: Final = by({"unclean_election": True}, CLEAN_ELECTIONS)
ONE_IN_SYNC: Final = by({"min_insync_replicas": 1}, IN_SYNC_2)
UNFLUSHED: Final = by({"flush_before_ack": False}, FLUSH, APART)
ONE_UNFLUSHED: Final = by(
    {"min_insync_replicas": 1, "flush_before_ack": False}, ELIGIBLE_IN_SYNC_2, FLUSH
)
LAST_UNFLUSHED: Final = by(
    {"eligible_leader_replicas": False, "flush_before_ack": False}, ELIGIBLE_LEADERS, FLUSH
)
DISKS_LOST: Final = by_no_setting(
    "the loss of every in-sync replica's disk (no setting)",
    do("more in-sync replicas (min.insync.replicas) than disks can be lost together"),
)
QUORUM_LOST: Final = by_no_setting(
    "the loss of the disks of a majority of the controllers (no setting)",
    do("more controllers, on disks that are not lost together"),
)
NOT_IDEMPOTENT: Final = by({"idempotence": False}, IDEMPOTENCE)
NOT_IN_LINE: Final = by({"idempotence": False}, IDEMPOTENCE, set_to(max_in_flight=1))
EPOCH_LEFT: Final = by_no_setting(
    "the client's change of its producer epoch (no setting)",
    do("a client that stops instead, or a transaction around the sends (transactional.id)"),
)
BIT_FLIPPED: Final = by_no_setting(
    "a damaged disk (no setting)", do("disks or a file system that notice damage")
)
RECORDS_LOST: Final = by_no_setting(
    "whatever permits the loss of the partition's records",
    do("whatever prevents the loss of the partition's records"),
)
