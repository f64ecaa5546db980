"""What befell a run, lane by lane: faults, kills, boots, roles, truncations; and what went wrong.

Nodes' roles and truncations are what the nodes said themselves, at that moment. What went wrong is
the verdict's gravest forbidden anomaly, or the invariant that broke. Times are the world's ns.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.simulation.diagram.captions import value_name
from harness.simulation.diagram.capture import Noted

LOST: Final = "lost-write"
BOOT: Final = "boot"
NS: Final = 1_000_000_000

_ROLE = re.compile(r"(\S+): (leader|follower|offline|\w+) in leader epoch (\d+) \((.*)\)$")
_CUT = re.compile(r"truncating (\S+) from (\d+) to (\d+): (.*)$")
_QUORUM = re.compile(r"leads epoch (\d+) (?:from offset|(no more))")
_WHEN = re.compile(r" \(at [\d.]+ s, after an event of node (\d+)\)$")
_PLACE = re.compile(r"\b([\w.]+(?:-[\w.]+)*)-(\d+)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """What the diagram is to explain."""

    kind: str
    sentence: str
    cause: str = ""
    topic: str = ""
    partition: int = 0
    value: int | None = None
    offset: int | None = None
    client: str = ""
    lane: str = ""
    """Of the node at whose event an invariant broke."""
    began_ns: int | None = None
    """When the operation that went wrong began."""
    ended_ns: int | None = None

    @property
    def place(self) -> str:
        """The partition's name; empty when it is about none."""
        return f"{self.topic}-{self.partition}" if self.topic else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something that happened on one lane."""

    at_ns: int
    lane: str
    kind: str
    """boot, end, leader, follower, offline, cut, quorum or wrong."""
    words: str
    grave: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A fault in force."""

    number: int
    words: str
    effect: str
    lanes: tuple[str, ...]
    began_ns: int
    ended_ns: int | None
    cuts: frozenset[tuple[int, int]] = frozenset()


def from_verdict(verdict: Mapping[str, Any], sign: str | None, base_ns: int) -> Wrong | None:
    """The gravest forbidden anomaly, of kind `sign` if that is among them."""
    found = [a for a in verdict["anomalies"] if a["judgement"] == "forbidden"]
    found.sort(key=lambda anomaly: anomaly["kind"] != sign)
    if not found:
        return None
    anomaly = found[0]
    example: Mapping[str, Any] = (anomaly.get("examples") or [{}])[0]
    topic, partition = anomaly.get("topic") or "", anomaly.get("partition") or 0
    value, offset = example.get("value"), example.get("offset")
    client = example.get("client")
    many = anomaly["count"]
    lost = f"acknowledged write{'s' * (many > 1)} lost"
    kind = lost if anomaly["kind"] == LOST else anomaly["kind"]
    sentence = f"{many:,} {kind}" + (f" in {topic}-{partition}" if topic else "")
    if value is not None:
        sentence += f"; the first is {value_name(value)}"
        sentence += "" if offset is None else f", at offset {offset}"
    if detail := example.get("detail"):
        sentence += f": {detail}"
    return Wrong(
        kind=anomaly["kind"],
        sentence=sentence,
        cause=anomaly.get("cause") or "",
        topic=topic,
        partition=partition,
        value=value,
        offset=offset,
        client="" if client is None else f"highwater-{client}",
        began_ns=_plus(example.get("invoke_ns"), base_ns),
        ended_ns=_plus(example.get("complete_ns"), base_ns),
    )


def from_invariant(name: str, sentence: str, topics: Iterable[str], at_ns: int) -> Wrong:
    """The invariant that broke, at the end of what was recorded."""
    known = set(topics)
    places = [(t, int(p)) for t, p in _PLACE.findall(sentence) if t in known]
    topic, partition = places[0] if places else ("", 0)
    when = _WHEN.search(sentence)
    return Wrong(
        kind=name,
        sentence=f"{name}: {sentence[: when.start()] if when else sentence}",
        topic=topic,
        partition=partition,
        lane=f"node-{when[1]}" if when else "",
        ended_ns=at_ns,
    )


def turning(wrong: Wrong) -> list[Mark]:
    """Where it is that a promise was given, or that an invariant broke."""
    if wrong.ended_ns is None:
        return []
    if wrong.lane:
        return [_wrong(wrong.ended_ns, wrong.lane, f"here it breaks: {wrong.kind}")]
    if wrong.value is None or not wrong.client:
        return []
    where = "" if wrong.offset is None else f" at offset {wrong.offset}"
    words = f"{value_name(wrong.value)} is acknowledged{where}"
    return [_wrong(wrong.ended_ns, wrong.client, words)]


def _wrong(at_ns: int, lane: str, words: str) -> Mark:
    return Mark(at_ns=at_ns, lane=lane, kind="wrong", words=words, grave=True)


def _plus(at_ns: int | None, base_ns: int) -> int | None:
    return None if at_ns is None else at_ns + base_ns


def lives(notes: Sequence[Noted], end_ns: int) -> list[Mark]:
    """Boots and ends of the machines' programs, before everything was ended."""
    return [
        Mark(at_ns=note.at_ns, lane=note.host, kind="boot", words="starts")
        if note.what == BOOT
        else Mark(at_ns=note.at_ns, lane=note.host, kind="end", words=_end(note.what))
        for note in notes
        if note.at_ns < end_ns
    ]


def _end(what: str) -> str:
    """Of `end by process with -9` and the like."""
    _, _, mode, _, code = what.split()
    if code == "0":
        return "stops in order"
    return {"power": "loses its power", "-9": "is killed"}.get(
        mode if mode == "power" else code, f"ends by itself, exit code {code}"
    )


def roles(logs: Mapping[int, Iterable[str]], place: str) -> list[Mark]:
    """What nodes said of their roles in a partition and in the quorum, and of truncations."""
    marks = []
    for node, lines in logs.items():
        for line in lines:
            at, _, rest = line.partition(" ")
            mark = _said(round(float(at) * NS), f"node-{node}", rest, place)
            if mark is not None:
                marks.append(mark)
    return sorted(marks, key=lambda mark: mark.at_ns)


def _said(at_ns: int, lane: str, rest: str, place: str) -> Mark | None:
    if (role := _ROLE.search(rest)) and role[1] == place:
        words = f"{role[2]}, epoch {role[3]} ({role[4]})"
        return Mark(at_ns=at_ns, lane=lane, kind=role[2], words=words)
    if (cut := _CUT.search(rest)) and cut[1] == place:
        words = f"truncates from {cut[2]} to {cut[3]}: {cut[4]}"
        return Mark(at_ns=at_ns, lane=lane, kind="cut", words=words, grave=cut[2] != cut[3])
    if (quorum := _QUORUM.search(rest)) is not None:
        words = f"leads the metadata quorum in epoch {quorum[1]}{' no more' * bool(quorum[2])}"
        return Mark(at_ns=at_ns, lane=lane, kind="quorum", words=words)
    return None


def faults(rows: Iterable[Mapping[str, Any]], base_ns: int) -> list[Span]:
    """The faults that were in force, in the order of their beginning."""
    spans = []
    for row in rows:
        if row["effective_ns"] is None:
            continue
        targets = json.loads(row["targets"] or "{}")
        nodes = targets.get("meant") or targets.get("nodes") or []
        spans.append(
            Span(
                number=row["fault_id"],
                words=f"fault {row['fault_id']}: {row['label']}",
                effect=row["effect"] or "",
                lanes=tuple(f"node-{node}" for node in nodes),
                began_ns=row["started_ns"] + base_ns,
                ended_ns=_plus(row["healed_ns"], base_ns),
                cuts=frozenset((src, dst) for src, dst, *_ in targets.get("cuts") or []),
            )
        )
    return sorted(spans, key=lambda span: (span.began_ns, span.number))
