"""What the run's target could do to its nodes, and which faults were available because of that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nemesis.faults.catalogue import FAULTS
from nemesis.faults.fault import Ability


@dataclass(frozen=True, slots=True, kw_only=True)
class AbilityStatus:
    """One ability of targets."""

    ability: str
    faults: Sequence[str]
    """The faults that need this ability, alone or with others."""
    lacking: str
    """Why the run's target lacked the ability; empty: it had it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableFaults:
    """Every ability, and how many faults of the catalogue the target made available."""

    abilities: Sequence[AbilityStatus]
    faults: int
    available: int


def available_faults(run: Mapping[str, Any]) -> AvailableFaults | None:
    """Read them from run.json; None when it does not say what the target lacks."""
    lacking = run.get("lacking")
    if not isinstance(lacking, Mapping):
        return None
    return AvailableFaults(
        abilities=[
            AbilityStatus(
                ability=ability.value,
                faults=[fault.name for fault in FAULTS.values() if ability in fault.needs],
                lacking=str(lacking.get(ability.value, "")),
            )
            for ability in Ability
        ],
        faults=len(FAULTS),
        available=sum(not (fault.needs & lacking.keys()) for fault in FAULTS.values()),
    )
