"""What a plan's faults may do to acknowledged writes, before anything is started.

The contract itself is asked: for each thing that the planned faults may bring about (a change of
leadership, a loss of power, lost disks) the worst case is put before it, and what it would permit
is a risk. So a warning and a verdict cannot disagree on what a setting permits. It is no forecast.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from checkers.causes.cause import Cause, CauseKind
from checkers.causes.state_loss import Loss, Moment, StateLoss
from checkers.contract.contract import in_force, judge
from checkers.contract.permissions import Permission
from checkers.contract.rules import Context, Judgement
from checkers.history.recorded_faults import DISK_FAULTS, POWER_LOSSES, WHOLE_DISKS, Fault, Taken
from checkers.history.settings import (
    ANY_TOPIC,
    FOREVER_NS,
    UNCLEAN,
    Change,
    topic_settings,
    weakest,
)


class Happening(StrEnum):
    """What faults may bring about."""

    ELECTION = "a change of leadership"
    OUTSIDE = "an election from outside the in-sync replicas"
    ALONE = "the loss of the only in-sync replica"
    POWER = "a loss of power"
    DISKS = "lost or damaged disks"
    QUORUM = "lost disks of the controllers"


_BY_ANY: Final = (Happening.ELECTION, Happening.OUTSIDE, Happening.ALONE)
"""Whatever keeps a leader from the others, or ends it, may bring these about."""
_HARMLESS: Final = (
    "clock.", "cut.clients", "pause.clients", "response-lost", "reset", "topic.create-delete",
    "partitions.grow", "config",
)  # fmt: skip
"""How faults begin that take no leader from its partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """Topics whose acknowledged writes may be lost, by what, and by which permission."""

    topics: tuple[str, ...]
    happenings: tuple[Happening, ...]
    permission: Permission

    @property
    def text(self) -> str:
        """One line for people."""
        any_election = Happening.ELECTION in self.happenings
        by = [e for e in self.happenings if not (any_election and e in _BY_ANY[1:])]
        return (
            f"{self.permission.permitted_by}: these faults can lose acknowledged writes of "
            f"{', '.join(self.topics)}, by {' or '.join(by)}; prevented by "
            f"{' or '.join(self.permission.prevented_by)}"
        )

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "topics": list(self.topics),
            "by": [each.value for each in self.happenings],
            **self.permission.as_json(),
        }


def risks(
    plan: Mapping[str, Any], faults: Iterable[tuple[str, Mapping[str, str]]]
) -> tuple[Risk, ...]:
    """What the plan's settings permit with these faults (name, parameters): one for each
    permission, whatever the topics."""
    planned = [*faults]
    happenings = _happenings([name for name, _ in planned])
    changes = [change for name, params in planned for change in _changes(name, params)]
    found: dict[int, tuple[Permission, dict[str, None], dict[Happening, None]]] = {}
    for topic in plan.get("topics") or ():
        settings = topic_settings(plan, topic["name"])
        context = in_force(weakest(settings, topic["name"], changes, 0, FOREVER_NS))
        replicas = int(topic.get("replication_factor") or 1)
        for happening in happenings:
            for permission in _permitted(context, happening, replicas):
                entry = found.setdefault(id(permission), (permission, {}, {}))
                entry[1][topic["name"]] = None
                entry[2][happening] = None
    return tuple(
        Risk(topics=tuple(topics), happenings=tuple(by), permission=permission)
        for permission, topics, by in found.values()
    )


def _happenings(names: Sequence[str]) -> list[Happening]:
    found: list[Happening] = []
    if any(not name.startswith(_HARMLESS) for name in names):
        found += _BY_ANY
    if any(name in POWER_LOSSES for name in names):
        found.append(Happening.POWER)
    if any(name in DISK_FAULTS for name in names):
        found.append(Happening.DISKS)
    if any(name in WHOLE_DISKS for name in names):
        found.append(Happening.QUORUM)
    return found


def _changes(fault: str, params: Mapping[str, str]) -> Iterator[Change]:
    """What a planned fault will set, where the plan says so."""
    topic = params.get("topic", "")
    match fault, params:
        case "config", {"name": str(name), "value": str(value)}:
            changed = name, value
        case "elect", {"kind": "unclean"}:
            changed = UNCLEAN, "true"
        case _:
            return
    where = None if topic in ANY_TOPIC else topic
    yield Change(topic=where, name=changed[0], value=changed[1], from_ns=0, until_ns=FOREVER_NS)


def _permitted(context: Context, happening: Happening, replicas: int) -> Iterator[Permission]:
    """What permits that acknowledged writes are lost by it; nothing of acks=0, which asks for no
    acknowledgement."""
    for cause in _worst(happening, replicas) if context.acks != 0 else ():
        case = Context(**{name: getattr(context, name) for name in _SETTINGS}, cause=cause)
        row = judge("lost-write", case)
        if row.judgement is Judgement.PERMITTED and row.permission is not None:
            yield row.permission


_SETTINGS: Final = (
    "acks", "idempotence", "min_insync_replicas", "unclean_election", "flush_before_ack",
    "eligible_leader_replicas", "max_in_flight",
)  # fmt: skip


def _worst(happening: Happening, replicas: int) -> list[Cause]:
    """The worst that may be recorded of it, for a partition of so many replicas."""
    everybody = range(1, replicas + 1)
    match happening:
        case Happening.ELECTION:
            return [_cause()]
        case Happening.OUTSIDE:
            return [_cause(left_isr=True)]
        case Happening.ALONE:
            return [_cause(sole_isr=True)] if replicas > 1 else []
        case Happening.QUORUM:
            return [_cause(kind=CauseKind.QUORUM_LOSS)]
        case Happening.POWER:
            alone = _lost(Taken.UNFLUSHED, [1], left=[2])
            return [_cause(lost=lost) for lost in (alone, _lost(Taken.UNFLUSHED, everybody))]
        case Happening.DISKS:
            return [_cause(lost=_lost(Taken.DISK, everybody))]


def _cause(
    *,
    kind: CauseKind = CauseKind.ELECTION,
    left_isr: bool = False,
    sole_isr: bool = False,
    lost: StateLoss | None = None,
) -> Cause:
    return Cause(
        kind=kind, topic="", partition=0, text="", from_ns=0, near_until_ns=FOREVER_NS, deposed=1,
        leader=1 if lost else 2, left_isr=left_isr, sole_isr=sole_isr, lost=lost,
    )  # fmt: skip


def _lost(taken: Taken, nodes: Sequence[int], left: Sequence[int] = ()) -> StateLoss:
    """These nodes, the last in sync, lost what they had; those that had left are whole."""
    fault = Fault(
        fault_id=0, label="", aimed=frozenset(nodes), cut=frozenset(), started_ns=0,
        healed_ns=FOREVER_NS, takes=taken,
    )  # fmt: skip
    losses = tuple(
        Loss(node=node, from_ns=0, at_ns=0, told=Moment(0, None), back_ns=FOREVER_NS, fault=fault)
        for node in nodes
    )
    return StateLoss(losses=losses, in_sync=frozenset(nodes), eligible=frozenset(left))
