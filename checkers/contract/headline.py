"""What stands above all else of a verdict: was the contract kept, was anything lost, as expected?

The two are not the same. A configuration may permit that acknowledged writes are lost: then the
contract is kept, and the writes are gone all the same. The headline tells them apart, in words that
the terminal, the page, lists, nights and verdict.json share. It is a pure function of what is in
verdict.json, and reads it leniently: a verdict that was stored by an earlier version lacks parts.

What the user expects beside the contract is a third thing, and stands behind the two.

An acks=0 write was never acknowledged; its loss is counted apart. Duplicates and reorderings that
are permitted are counted too, and change no colour: nothing is gone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class Standing(StrEnum):
    """The whole in one word, for colours and signs; the gravest first."""

    BROKEN = "broken"
    """The contract is broken."""
    UNMET = "unmet"
    """An expectation of the user's surely failed."""
    UNDECIDED = "undecided"
    """Nobody can say."""
    LOSSES = "losses"
    """The contract is kept, and it permitted that acknowledged writes were lost."""
    CLEAN = "clean"
    """The contract is kept, and no acknowledged write was lost."""


CONTRACT: Final[Mapping[str, str]] = {
    "VALID": "contract kept",
    "INVALID": "contract broken",
    "UNKNOWN": "contract not decided",
}
_ALSO: Final[Mapping[str, tuple[str, str]]] = {
    "duplicate": ("duplicate", "duplicates"),
    "reordered-send": ("reordered send", "reordered sends"),
}
_HOW: Final[Mapping[str, str]] = {
    "forbidden": "which nothing permits",
    "unknown": "and whether that is permitted is not known",
}
_ORDER: Final = ("forbidden", "unknown", "permitted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Acknowledged writes of one acks mode that are gone, and what permits that, if anything."""

    acks: int | None
    judgement: str
    count: int
    permitted_by: str = ""
    prevented_by: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Such as `934 acks=all, permitted by unclean.leader.election.enable=true`."""
        how = f"permitted by {self.permitted_by or 'the contract'}"
        return f"{self.count:,} {_acks(self.acks)}, {_HOW.get(self.judgement, how)}"

    @property
    def remedy(self) -> str:
        """What would have prevented it: one of these is enough; empty where nothing permits it."""
        return " or ".join(self.prevented_by)

    def as_json(self) -> dict[str, Any]:
        """As verdict.json has it."""
        return {
            "acks": self.acks,
            "judgement": self.judgement,
            "count": self.count,
            "permitted_by": self.permitted_by,
            "prevented_by": list(self.prevented_by),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """See the module. losses: the gravest first. unacknowledged: lost writes with acks=0."""

    verdict: str
    losses: tuple[Loss, ...] = ()
    unacknowledged: int = 0
    also: str = ""
    """Duplicates and reorderings of acknowledged writes that nothing forbids; empty without."""
    unmet: tuple[str, ...] = ()
    """Expectations of the user's that failed, with what was measured."""
    undecided: tuple[str, ...] = ()
    """Those of which nobody can say, and why."""

    @property
    def standing(self) -> Standing:
        """For colours and signs."""
        match self.verdict:
            case "INVALID":
                return Standing.BROKEN
            case _ if self.unmet:
                return Standing.UNMET
            case _ if self.undecided:
                return Standing.UNDECIDED
            case "VALID":
                return Standing.LOSSES if self.losses else Standing.CLEAN
            case _:
                return Standing.UNDECIDED

    @property
    def contract(self) -> str:
        """Whether the contract was kept."""
        return CONTRACT.get(self.verdict, CONTRACT["UNKNOWN"])

    @property
    def lost(self) -> str:
        """Whether acknowledged writes were lost; empty where that is not known."""
        if self.losses:
            return "acknowledged writes lost"
        return "no acknowledged write lost" if self.verdict == "VALID" else ""

    @property
    def parts(self) -> tuple[str, ...]:
        """The title, in lower case."""
        return tuple(filter(None, (self.contract, self.lost, self.expected)))

    @property
    def expected(self) -> str:
        """Whether an expectation failed or was not decided; empty where none was."""
        found = self.unmet or self.undecided
        what = "expectation" if len(found) == 1 else f"{len(found)} expectations"
        return f"{what} {'failed' if self.unmet else 'not decided'}" if found else ""

    @property
    def lost_text(self) -> str:
        """How many of which acks mode, and what permits that; empty where nothing was lost."""
        return "; ".join(loss.text for loss in self.losses)

    @property
    def lost_by_acks(self) -> dict[str, int]:
        """How many acknowledged writes of each acks mode, whatever permits it."""
        found: dict[str, int] = {}
        for loss in self.losses:
            name = _acks(loss.acks).removeprefix("acks=")
            found[name] = found.get(name, 0) + loss.count
        return found

    @property
    def unacknowledged_text(self) -> str:
        """What was lost without ever having been acknowledged; empty where nothing was."""
        if not self.unacknowledged:
            return ""
        what = "write was" if self.unacknowledged == 1 else "writes were"
        return f"{self.unacknowledged:,} acks=0 {what} lost too; acks=0 asks for no acknowledgement"

    @property
    def line(self) -> str:
        """All of it in one line."""
        told = {self.lost: self.lost_text, self.expected: "; ".join(self.unmet or self.undecided)}
        return "; ".join(
            part.upper() + (f": {told[part]}" if told.get(part) else "") for part in self.parts
        )

    def as_json(self) -> dict[str, Any]:
        """As verdict.json has it."""
        return {
            "standing": self.standing.value,
            "line": self.line,
            "contract": self.contract,
            "losses": [loss.as_json() for loss in self.losses],
            "unacknowledged": self.unacknowledged,
            "also": self.also,
            "unmet": list(self.unmet),
            "undecided": list(self.undecided),
        }


def of(verdict: Mapping[str, Any]) -> Headline:
    """The headline of a verdict.json."""
    anomalies = [row for row in _rows(verdict.get("anomalies")) if _count(row)]
    lost = [row for row in anomalies if row.get("kind") == "lost-write"]
    expected = _rows(verdict.get("expectations"))
    return Headline(
        verdict=str(verdict.get("verdict")),
        losses=tuple(_losses([row for row in lost if row.get("acks") != 0])),
        unacknowledged=sum(_count(row) for row in lost if row.get("acks") == 0),
        also=", ".join(_also(anomalies)),
        unmet=tuple(str(row.get("said")) for row in expected if row.get("outcome") == "failed"),
        undecided=tuple(
            str(row.get("said")) for row in expected if row.get("outcome") == "unknown"
        ),
    )


def _losses(rows: Sequence[Mapping[str, Any]]) -> list[Loss]:
    """Like ones together; forbidden ones first, then those of the strongest promise."""
    found: dict[tuple[Any, ...], int] = {}
    for row in rows:
        remedies = row.get("prevented_by")
        key = (
            row.get("acks") if isinstance(row.get("acks"), int) else None,
            str(row.get("judgement")),
            str(row.get("permitted_by") or ""),
            tuple(map(str, remedies)) if isinstance(remedies, list) else (),
        )
        found[key] = found.get(key, 0) + _count(row)
    losses = [
        Loss(acks=key[0], judgement=key[1], count=count, permitted_by=key[2], prevented_by=key[3])
        for key, count in found.items()
    ]
    return sorted(losses, key=_gravity)


def _gravity(loss: Loss) -> tuple[int, int, int]:
    order = _ORDER.index(loss.judgement) if loss.judgement in _ORDER else len(_ORDER)
    return order, 0 if loss.acks == -1 else 1, -loss.count


def _also(anomalies: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    counts: dict[tuple[str, Any], int] = {}
    for row in anomalies:
        kind, acks = str(row.get("kind")), row.get("acks")
        if kind in _ALSO and acks != 0 and row.get("judgement") == "permitted":
            counts[kind, acks] = counts.get((kind, acks), 0) + _count(row)
    for (kind, acks), count in counts.items():
        one, many = _ALSO[kind]
        yield f"{count:,} {one if count == 1 else many} of {_acks(acks)}"


def _acks(acks: Any) -> str:
    return "of unknown acks" if acks is None else f"acks={'all' if acks == -1 else acks}"


def _count(row: Mapping[str, Any]) -> int:
    count = row.get("count")
    return count if isinstance(count, int) and not isinstance(count, bool) else 0


def _rows(found: Any) -> list[Mapping[str, Any]]:
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
