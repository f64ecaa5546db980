"""What the run's target could do to its nodes, and which faults that made possible."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nemesis.faults.catalogue import FAULTS
from nemesis.faults.fault import Ability


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """An ability of targets."""

    ability: str
    faults: Sequence[str]
    """Those that need it, perhaps others beside it."""
    lacking: str
    """Why the run's target had it not; empty: it had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """Every ability, and how many faults of the catalogue could be injected with those there."""

    abilities: Sequence[Offer]
    faults: int
    available: int


def offers(run: Mapping[str, Any]) -> Offers | None:
    """By the run's own record (run.json); None when it does not say what its target lacks."""
    lacking = run.get("lacking")
    if not isinstance(lacking, Mapping):
        return None
    return Offers(
        abilities=[
            Offer(
                ability=ability.value,
                faults=[fault.name for fault in FAULTS.values() if ability in fault.needs],
                lacking=str(lacking.get(ability.value, "")),
            )
            for ability in Ability
        ],
        faults=len(FAULTS),
        available=sum(not (fault.needs & lacking.keys()) for fault in FAULTS.values()),
    )
