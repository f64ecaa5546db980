"""The events of a run by lane: faults, kills, boots, roles, truncations; and the finding to
explain.

Roles and truncations come from the nodes' own log lines. The finding is the gravest forbidden
anomaly of the verdict, or the broken invariant. Times are the world's ns.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.simulation.diagram.captions import value_name
from harness.simulation.diagram.capture import ProgramEvent

LOST: Final = "lost-write"
BOOT: Final = "boot"
NS: Final = 1_000_000_000

_ROLE = re.compile(r"(\S+): (leader|follower|offline|\w+) in leader epoch (\d+) \((.*)\)$")
_CUT = re.compile(r"truncating (\S+) from (\d+) to (\d+): (.*)$")
_QUORUM = re.compile(r"leads epoch (\d+) (?:from offset|(no more))")
_WHEN = re.compile(r" \(at [\d.]+ s, after an event of node (\d+)\)$")
_PLACE = re.compile(r"\b([\w.]+(?:-[\w.]+)*)-(\d+)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the diagram explains: a forbidden anomaly or a broken invariant."""

    kind: str
    sentence: str
    cause: str = ""
    topic: str = ""
    partition: int = 0
    value: int | None = None
    offset: int | None = None
    client: str = ""
    lane: str = ""
    """The lane of the node after whose event an invariant broke."""
    began_ns: int | None = None
    """When the anomalous operation began."""
    ended_ns: int | None = None

    @property
    def place(self) -> str:
        """The partition's name; empty without a partition."""
        return f"{self.topic}-{self.partition}" if self.topic else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An event on one lane."""

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


def from_verdict(verdict: Mapping[str, Any], sign: str | None, base_ns: int) -> Finding | None:
    """Return the gravest forbidden anomaly; one of kind `sign` if there is one."""
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
    return Finding(
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


def from_invariant(name: str, sentence: str, topics: Iterable[str], at_ns: int) -> Finding:
    """Return the broken invariant, at the end of the recording."""
    known = set(topics)
    places = [(t, int(p)) for t, p in _PLACE.findall(sentence) if t in known]
    topic, partition = places[0] if places else ("", 0)
    when = _WHEN.search(sentence)
    return Finding(
        kind=name,
        sentence=f"{name}: {sentence[: when.start()] if when else sentence}",
        topic=topic,
        partition=partition,
        lane=f"node-{when[1]}" if when else "",
        ended_ns=at_ns,
    )


def turning_points(finding: Finding) -> list[Mark]:
    """Mark where the lost value was acknowledged, or where the invariant broke."""
    if finding.ended_ns is None:
        return []
    if finding.lane:
        return [
            _finding_mark(
                finding.ended_ns, finding.lane, f"here the invariant breaks: {finding.kind}"
            )
        ]
    if finding.value is None or not finding.client:
        return []
    where = "" if finding.offset is None else f" at offset {finding.offset}"
    words = f"{value_name(finding.value)} is acknowledged{where}"
    return [_finding_mark(finding.ended_ns, finding.client, words)]


def _finding_mark(at_ns: int, lane: str, words: str) -> Mark:
    return Mark(at_ns=at_ns, lane=lane, kind="wrong", words=words, grave=True)


def _plus(at_ns: int | None, base_ns: int) -> int | None:
    return None if at_ns is None else at_ns + base_ns


def process_marks(notes: Sequence[ProgramEvent], end_ns: int) -> list[Mark]:
    """Return the starts and ends of the machines' programs, before the end of the run."""
    return [
        Mark(at_ns=note.at_ns, lane=note.host, kind="boot", words="starts")
        if note.what == BOOT
        else Mark(at_ns=note.at_ns, lane=note.host, kind="end", words=_end(note.what))
        for note in notes
        if note.at_ns < end_ns
    ]


def _end(what: str) -> str:
    """Parse `end by process with -9` and the like."""
    _, _, mode, _, code = what.split()
    if code == "0":
        return "stops in order"
    return {"power": "loses its power", "-9": "is killed"}.get(
        mode if mode == "power" else code, f"ends by itself, exit code {code}"
    )


def role_marks(logs: Mapping[int, Iterable[str]], place: str) -> list[Mark]:
    """Return the roles and truncations from the nodes' log lines: of one partition, and of the
    quorum.
    """
    marks = []
    for node, lines in logs.items():
        for line in lines:
            at, _, rest = line.partition(" ")
            mark = _role_mark(round(float(at) * NS), f"node-{node}", rest, place)
            if mark is not None:
                marks.append(mark)
    return sorted(marks, key=lambda mark: mark.at_ns)


def _role_mark(at_ns: int, lane: str, rest: str, place: str) -> Mark | None:
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


def fault_spans(rows: Iterable[Mapping[str, Any]], base_ns: int) -> list[Span]:
    """Return the faults that took effect, in the order of their beginning."""
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
