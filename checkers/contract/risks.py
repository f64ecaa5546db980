"""Which acknowledged writes a plan's faults may lose, computed before anything is started.

For each effect that the planned faults may have (a leader change, a power loss, lost disks) the
contract judges the worst case. A loss that the contract would permit is a risk. So a warning and a
verdict cannot disagree on what a setting permits. A risk is not a forecast.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from checkers.causes.cause import Cause, CauseKind
from checkers.causes.state_loss import Moment, ReplicaLoss, StateLoss
from checkers.contract.conditions import Context, in_force
from checkers.contract.contract import judge
from checkers.contract.permissions import Permission
from checkers.contract.rules import Judgement
from checkers.history.recorded_faults import (
    DISK_FAULTS,
    POWER_LOSSES,
    WHOLE_DISKS,
    Fault,
    LostState,
)
from checkers.history.settings import (
    ANY_TOPIC,
    FOREVER_NS,
    UNCLEAN,
    Change,
    topic_settings,
    weakest,
)


class FaultEffect(StrEnum):
    """What faults may cause."""

    ELECTION = "a leader change"
    OUTSIDE = "an election from outside the in-sync replicas"
    ALONE = "the loss of the only in-sync replica"
    POWER = "a power loss"
    DISKS = "lost or damaged disks"
    QUORUM = "lost disks of the controllers"


_ELECTIONS: Final = (FaultEffect.ELECTION, FaultEffect.OUTSIDE, FaultEffect.ALONE)
"""The effects of every fault that separates a leader from the other nodes, or ends it."""
_HARMLESS: Final = (
    "app.", "clock.", "cut.clients", "pause.clients", "response-lost", "reset",
    "topic.create-delete", "partitions.grow", "config", "records.",
)  # fmt: skip
"""How the names of faults begin that cause no leader change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """Topics whose acknowledged writes may be lost, the effects that lose them, and what permits
    it."""

    topics: tuple[str, ...]
    effects: tuple[FaultEffect, ...]
    permission: Permission

    @property
    def text(self) -> str:
        """One line for people."""
        any_election = FaultEffect.ELECTION in self.effects
        by = [e for e in self.effects if not (any_election and e in _ELECTIONS[1:])]
        return (
            f"{self.permission.permitted_by}: these faults can lose acknowledged writes of "
            f"{', '.join(self.topics)}, by {' or '.join(by)}; prevented by "
            f"{' or '.join(self.permission.prevented_by)}"
        )

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "topics": list(self.topics),
            "by": [each.value for each in self.effects],
            **self.permission.as_json(),
        }


def risks(
    plan: Mapping[str, Any], faults: Iterable[tuple[str, Mapping[str, str]]]
) -> tuple[Risk, ...]:
    """Return the losses that the plan's settings permit with these faults (name, parameters): one
    risk for each permission, for all topics together."""
    planned = [*faults]
    effects = _effects([name for name, _ in planned])
    changes = [change for name, params in planned for change in _changes(name, params)]
    found: dict[int, tuple[Permission, dict[str, None], dict[FaultEffect, None]]] = {}
    for topic in plan.get("topics") or ():
        settings = topic_settings(plan, topic["name"])
        context = in_force(weakest(settings, topic["name"], changes, 0, FOREVER_NS))
        replicas = int(topic.get("replication_factor") or 1)
        for effect in effects:
            for permission in _permitted(context, effect, replicas):
                entry = found.setdefault(id(permission), (permission, {}, {}))
                entry[1][topic["name"]] = None
                entry[2][effect] = None
    return tuple(
        Risk(topics=tuple(topics), effects=tuple(by), permission=permission)
        for permission, topics, by in found.values()
    )


def _effects(names: Sequence[str]) -> list[FaultEffect]:
    found: list[FaultEffect] = []
    if any(not name.startswith(_HARMLESS) for name in names):
        found += _ELECTIONS
    if any(name in POWER_LOSSES for name in names):
        found.append(FaultEffect.POWER)
    if any(name in DISK_FAULTS for name in names):
        found.append(FaultEffect.DISKS)
    if any(name in WHOLE_DISKS for name in names):
        found.append(FaultEffect.QUORUM)
    return found


def _changes(fault: str, params: Mapping[str, str]) -> Iterator[Change]:
    """The setting that a planned fault will change, if the plan names it."""
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


def _permitted(context: Context, effect: FaultEffect, replicas: int) -> Iterator[Permission]:
    """What permits that the effect loses acknowledged writes; nothing for acks=0, which asks for no
    acknowledgement."""
    for cause in _worst(effect, replicas) if context.acks != 0 else ():
        case = Context(**{name: getattr(context, name) for name in _SETTINGS}, cause=cause)
        row = judge("lost-write", case)
        if row.judgement is Judgement.PERMITTED and row.permission is not None:
            yield row.permission


_SETTINGS: Final = (
    "acks", "idempotence", "min_insync_replicas", "unclean_election", "flush_before_ack",
    "eligible_leader_replicas", "max_in_flight",
)  # fmt: skip


def _worst(effect: FaultEffect, replicas: int) -> list[Cause]:
    """The worst causes that the effect may leave, for a partition of so many replicas."""
    all_nodes = range(1, replicas + 1)
    match effect:
        case FaultEffect.ELECTION:
            return [_cause()]
        case FaultEffect.OUTSIDE:
            return [_cause(left_isr=True)]
        case FaultEffect.ALONE:
            return [_cause(sole_isr=True)] if replicas > 1 else []
        case FaultEffect.QUORUM:
            return [_cause(kind=CauseKind.QUORUM_LOSS)]
        case FaultEffect.POWER:
            alone = _lost(LostState.UNFLUSHED, [1], left=[2])
            return [_cause(lost=lost) for lost in (alone, _lost(LostState.UNFLUSHED, all_nodes))]
        case FaultEffect.DISKS:
            return [_cause(lost=_lost(LostState.DISK, all_nodes))]


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


def _lost(state: LostState, nodes: Sequence[int], left: Sequence[int] = ()) -> StateLoss:
    """These nodes, the last in sync, lost state; the nodes that had left are intact."""
    fault = Fault(
        fault_id=0, label="", aimed=frozenset(nodes), cut=frozenset(), started_ns=0,
        healed_ns=FOREVER_NS, loses=state,
    )  # fmt: skip
    losses = tuple(
        ReplicaLoss(
            node=node, from_ns=0, at_ns=0, registered=Moment(0, None), back_ns=FOREVER_NS,
            fault=fault,
        )
        for node in nodes
    )  # fmt: skip
    return StateLoss(losses=losses, in_sync=frozenset(nodes), eligible=frozenset(left))
