"""The headline of a verdict: was the contract kept, was anything lost, were expectations met?

The first two differ. A configuration may permit the loss of acknowledged writes: then the contract
is kept, and the writes are still gone. The headline shows both, in words that the terminal, the
report, lists, nights and verdict.json share. It is a pure function of the content of verdict.json.
It reads leniently, because a verdict that an earlier version stored lacks parts.

The user's expectations beside the contract come third.

An acks=0 write was never acknowledged, so its loss is counted apart. What retention removed
was not lost, because its owner asked for that; it is counted apart too. Permitted duplicates and
reorderings are counted too. They change no colour, because nothing is gone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from checkers.contract import program
from checkers.contract.permissions import RETENTION
from checkers.losses import LOSSES


class Standing(StrEnum):
    """The headline in one word, for colours and signs; the most severe first."""

    BROKEN = "broken"
    """The contract is broken."""
    UNMET = "unmet"
    """An expectation of the user certainly failed."""
    UNDECIDED = "undecided"
    """The record does not decide."""
    LOSSES = "losses"
    """The contract is kept, and it permitted the loss of acknowledged writes."""
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
    "forbidden": "not permitted",
    "unknown": "unknown whether permitted",
}
_ORDER: Final = ("forbidden", "unknown", "permitted")


@dataclass(frozen=True, slots=True, kw_only=True)
class LostWrites:
    """Lost acknowledged writes of one acks mode, and what permits the loss, if anything does."""

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
        """What would have prevented the loss, each alone; empty where nothing permits it."""
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
    """See the module. losses: the most severe first. unacknowledged: lost writes with acks=0.

    expired: acknowledged writes that retention removed before somebody read them.
    """

    verdict: str
    losses: tuple[LostWrites, ...] = ()
    unacknowledged: int = 0
    expired: int = 0
    also: str = ""
    """Permitted duplicates and reorderings of acknowledged writes; empty without any."""
    unmet: tuple[str, ...] = ()
    """The user's expectations that failed, with the measurement."""
    undecided: tuple[str, ...] = ()
    """The expectations that the record does not decide, with the reason."""
    program: str = ""
    """What a tested program did against its claim; empty without any such thing."""
    doubt: str = ""
    """What may be a tested program's doing, or the cluster's; empty without any such thing."""
    kept: str = ""
    """What a tested program kept of its claim, if nothing contradicts it; empty without one."""

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
        return tuple(filter(None, (self.contract, self.lost, self.claim, self.expected)))

    @property
    def claim(self) -> str:
        """Whether a tested program kept its claim; empty without one, or if that is not known."""
        if self.program:
            return "the program broke its claim"
        if self.doubt:
            return "the program's claim not decided"
        return "the program kept its claim" if self.kept and self.verdict == "VALID" else ""

    @property
    def expected(self) -> str:
        """Whether an expectation failed or was not decided; empty where none was."""
        found = self.unmet or self.undecided
        what = "expectation" if len(found) == 1 else f"{len(found)} expectations"
        return f"{what} {'failed' if self.unmet else 'not decided'}" if found else ""

    @property
    def lost_text(self) -> str:
        """The number of lost writes of each acks mode, and what permits the loss; empty without any
        loss."""
        return "; ".join(loss.text for loss in self.losses)

    @property
    def lost_by_acks(self) -> dict[str, int]:
        """The number of lost acknowledged writes of each acks mode, permitted or not."""
        found: dict[str, int] = {}
        for loss in self.losses:
            name = _acks(loss.acks).removeprefix("acks=")
            found[name] = found.get(name, 0) + loss.count
        return found

    @property
    def unacknowledged_text(self) -> str:
        """The lost writes that were never acknowledged; empty without any."""
        if not self.unacknowledged:
            return ""
        what = "write was" if self.unacknowledged == 1 else "writes were"
        return f"{self.unacknowledged:,} acks=0 {what} lost too; acks=0 asks for no acknowledgement"

    @property
    def expired_text(self) -> str:
        """The acknowledged writes that retention removed; empty without any."""
        if not self.expired:
            return ""
        what = "write was" if self.expired == 1 else "writes were"
        return f"{self.expired:,} acknowledged {what} removed by {RETENTION.permitted_by}"

    @property
    def line(self) -> str:
        """All of it in one line."""
        details = {
            self.lost: self.lost_text,
            self.claim: self.program or self.doubt,
            self.expected: "; ".join(self.unmet or self.undecided),
        }
        return "; ".join(
            part.upper() + (f": {details[part]}" if details.get(part) else "")
            for part in self.parts
        )

    def as_json(self) -> dict[str, Any]:
        """As verdict.json has it."""
        return {
            "standing": self.standing.value,
            "line": self.line,
            "contract": self.contract,
            "losses": [loss.as_json() for loss in self.losses],
            "unacknowledged": self.unacknowledged,
            "expired": self.expired,
            "also": self.also,
            "program": self.program,
            "doubt": self.doubt,
            "unmet": list(self.unmet),
            "undecided": list(self.undecided),
        }


def of(verdict: Mapping[str, Any]) -> Headline:
    """The headline of a verdict.json."""
    anomalies = [row for row in _rows(verdict.get("anomalies")) if _count(row)]
    gone = [row for row in anomalies if row.get("kind") in LOSSES]
    expired = [row for row in gone if row.get("permitted_by") == RETENTION.permitted_by]
    lost = [row for row in gone if row not in expired]
    expected = _rows(verdict.get("expectations"))
    return Headline(
        verdict=str(verdict.get("verdict")),
        losses=tuple(_losses([row for row in lost if row.get("acks") != 0])),
        unacknowledged=sum(_count(row) for row in lost if row.get("acks") == 0),
        expired=sum(_count(row) for row in expired if row.get("acks") != 0),
        also=", ".join(_also(anomalies)),
        program=program.broken(anomalies),
        doubt=program.undecided(anomalies),
        kept=program.kept(_rows(verdict.get("promises"))),
        unmet=tuple(str(row.get("said")) for row in expected if row.get("outcome") == "failed"),
        undecided=tuple(
            str(row.get("said")) for row in expected if row.get("outcome") == "unknown"
        ),
    )


def _losses(rows: Sequence[Mapping[str, Any]]) -> list[LostWrites]:
    """Equal losses are joined. Forbidden losses come first, then acks=all."""
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
        LostWrites(
            acks=key[0], judgement=key[1], count=count, permitted_by=key[2], prevented_by=key[3]
        )
        for key, count in found.items()
    ]
    return sorted(losses, key=_severity)


def _severity(loss: LostWrites) -> tuple[int, int, int]:
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
    for kind in program.FOUND:
        same = [row for row in anomalies if row.get("kind") == kind]
        if count := sum(_count(row) for row in same if row.get("judgement") == "permitted"):
            yield program.finding(kind, count)


def _acks(acks: Any) -> str:
    return "of unknown acks" if acks is None else f"acks={'all' if acks == -1 else acks}"


def _count(row: Mapping[str, Any]) -> int:
    count = row.get("count")
    return count if isinstance(count, int) and not isinstance(count, bool) else 0


def _rows(found: Any) -> list[Mapping[str, Any]]:
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
