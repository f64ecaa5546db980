"""What a verdict says of a tested program, in one sentence. Pure: made from verdict.json alone."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

FOUND: Final[Mapping[str, tuple[str, str]]] = {
    "lost-output": ("{n} input has no output", "{n} inputs have no output"),
    "duplicated-output": ("{n} output is there again", "{n} outputs are there again"),
    "reordered-output": (
        "{n} output is not in the order of its key",
        "{n} outputs are not in the order of their key",
    ),
    "torn-output": ("{n} output is torn", "{n} outputs are torn"),
    "unknown-output": (
        "{n} output names no input that was sent",
        "{n} outputs name no input that was sent",
    ),
    "late-output": (
        "{n} input had no output when the program's time was over",
        "{n} inputs had no output when the program's time was over",
    ),
}
"""The kinds of anomalies of programs, the gravest first; one, and several."""


def broken(anomalies: Iterable[Mapping[str, Any]]) -> str:
    """Return what the program did against its claim, and when; empty if it kept it."""
    return _told(anomalies, "forbidden")


def undecided(anomalies: Iterable[Mapping[str, Any]]) -> str:
    """Return what may be the program's doing or the cluster's; empty without any such thing."""
    return _told(anomalies, "unknown")


def _told(anomalies: Iterable[Mapping[str, Any]], judgement: str) -> str:
    counts: dict[str, int] = {}
    causes: dict[str, str] = {}
    for each in anomalies:
        kind = str(each.get("kind"))
        if kind in FOUND and each.get("judgement") == judgement:
            counts[kind] = counts.get(kind, 0) + int(each.get("count") or 0)
            if each.get("cause"):
                causes.setdefault(kind, str(each["cause"]))
    order = [kind for kind in FOUND if counts.get(kind)]
    if not order:
        return ""
    text = ", and ".join(finding(kind, counts[kind]) for kind in order)
    return f"{text}: {causes[order[0]]}" if order[0] in causes else text


def finding(kind: str, count: int) -> str:
    """Return such as `14 inputs have no output`."""
    one, several = FOUND[kind]
    return (one if count == 1 else several).format(n=f"{count:,}")


def kept(promises: Iterable[Mapping[str, Any]]) -> str:
    """Return what the program did with its inputs as it claims; empty without a program."""
    for each in promises:
        if each.get("program"):
            return f"the program kept its claim {each['promise']} for {each['records']:,} inputs"
    return ""
