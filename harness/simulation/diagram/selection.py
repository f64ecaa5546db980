"""Selects the messages of a run that mattered for the finding. Pure.

First comes the window: from just before the anomalous operation (or the first fault) to the end of
the damage. In the window, messages about the partition or an election of the quorum matter; if
there are too many, those closest to an event. The other messages are counted.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from harness.simulation.diagram.captions import Part
from harness.simulation.diagram.events import Finding, Mark, Span
from harness.simulation.diagram.messages import Message

NS: Final = 1_000_000_000
BEFORE_NS: Final = NS // 5
AFTER_NS: Final = NS // 2
MAX_SHOWN: Final = 90
"""The most messages that mattered."""
MAX_ALL: Final = 1200
"""The most messages of the whole window."""

Window = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What the page shows."""

    window: Window
    chosen: Sequence[Message]
    left_out: Counter[str]
    """Messages of the window that are not shown, by kind."""


def window(finding: Finding, marks: Sequence[Mark], spans: Sequence[Span], end_ns: int) -> Window:
    """Return the time to show."""
    first = min((span.began_ns for span in spans), default=end_ns)
    if finding.ended_ns is None or finding.began_ns is None:
        ended_ns = finding.ended_ns or max((s.ended_ns or end_ns for s in spans), default=end_ns)
        return first - BEFORE_NS, min(end_ns, ended_ns + AFTER_NS)
    done_ns = finding.ended_ns
    for mark in marks:
        if mark.at_ns >= finding.began_ns and removes_finding(mark, finding):
            done_ns = max(done_ns, mark.at_ns)
            break
    else:
        done_ns = max((m.at_ns for m in marks if m.kind in _ROLES), default=done_ns)
        done_ns = max(done_ns, finding.ended_ns)
    under_way = [s.began_ns for s in spans if (s.ended_ns or end_ns) >= finding.began_ns]
    began_ns = min([finding.began_ns, *(at for at in under_way if at <= done_ns)])
    return began_ns - BEFORE_NS, min(end_ns, done_ns + AFTER_NS)


_ROLES = ("leader", "cut")


def removes_finding(mark: Mark, finding: Finding) -> bool:
    """Whether the mark is the truncation that removes what was acknowledged."""
    if mark.kind != "cut" or finding.offset is None:
        return False
    _, _, before, _, after, *_ = mark.words.split()
    return int(after.rstrip(":")) <= finding.offset < int(before)


def select(
    messages: Iterable[Message], finding: Finding, shown: Window, incidents: Sequence[int]
) -> Selection:
    """Return the messages that mattered; if there are too many, those closest to `incidents`
    (times).
    """
    inside = [m for m in messages if shown[0] <= m.sent_ns <= shown[1]]
    quiet = fetches_without_news(inside, finding)
    ranked = []
    repeated: set[tuple[str, str, str, tuple[Part, ...]]] = set()
    for message in inside:
        rank = _rank(message, finding, quiet)
        key = message.api, message.sender, message.receiver, message.parts
        again = message.is_election and key in repeated
        repeated.add(key)
        if rank is not None and not again:
            away_ns = min((abs(message.sent_ns - at) for at in incidents), default=0)
            ranked.append((rank, away_ns, message))
    ranked.sort(key=lambda each: (each[0], each[1], each[2].sent_ns, each[2].response))
    kept = {(m.exchange, m.response) for _, _, m in ranked[:MAX_SHOWN]}
    return _selected(inside, kept, shown)


def everything(messages: Iterable[Message], shown: Window) -> Selection:
    """Return all messages of the window except the harness's own, up to MAX_ALL."""
    inside = [m for m in messages if shown[0] <= m.sent_ns <= shown[1]]
    wanted = [m for m in inside if "harness" not in (m.sender, m.receiver)][-MAX_ALL:]
    return _selected(inside, {(m.exchange, m.response) for m in wanted}, shown)


def _selected(
    inside: Sequence[Message], kept: set[tuple[tuple[int, int], bool]], shown: Window
) -> Selection:
    left_out = Counter(
        m.api + (" of the harness's own" if "harness" in (m.sender, m.receiver) else "")
        for m in inside
        if (m.exchange, m.response) not in kept
    )
    chosen = [m for m in inside if (m.exchange, m.response) in kept]
    return Selection(window=shown, chosen=chosen, left_out=left_out)


def fetches_without_news(messages: Sequence[Message], finding: Finding) -> set[tuple[int, int]]:
    """Return fetches of the partition that were answered with nothing new."""
    loud = {
        m.exchange
        for m in messages
        if m.response
        for part in m.about(finding.topic, finding.partition)
        if part.values or part.offsets or part.error or "diverges" in part.words
    }
    return {m.exchange for m in messages if m.api == "Fetch" and m.response} - loud


def _rank(message: Message, finding: Finding, quiet: set[tuple[int, int]]) -> int | None:
    """Return how much a message matters, 0 the most; None if it does not."""
    if "harness" in (message.sender, message.receiver):
        return None
    about = message.about(finding.topic, finding.partition) if finding.topic else []
    if about and finding.value is not None and any(finding.value in p.values for p in about):
        return 0
    if message.api == "Produce" and message.sender == finding.client and about:
        return 1 if about[0].error else 2
    lost = message.arrived_ns is None or message.held_up_ns is not None
    match message.api:
        case "Vote" | "BeginQuorumEpoch" | "EndQuorumEpoch":
            return 3 if lost else 1 if message.response else 2
        case "AlterPartition" | "OffsetForLeaderEpoch" if about:
            return 1
        case "Produce" if about:
            return 2
        case "Fetch" if about:
            decided = any(part.words.startswith("decided") for part in about)
            if decided or any("diverges" in part.words for part in about):
                return 0
            if message.exchange in quiet:
                return 4 if lost else None
            return 2 if message.response else 3
        case _:
            return None
