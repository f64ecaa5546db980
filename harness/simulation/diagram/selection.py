"""Which messages of a run mattered for what went wrong, and which are only its daily life. Pure.

First the window: from just before the operation that went wrong (or the first fault) to when the
damage was done. In it, what concerns the partition or an election of the quorum; and of that, when
there is too much to look at, what lies closest to an incident. What is left out is counted.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from harness.simulation.diagram.captions import Part
from harness.simulation.diagram.events import Mark, Span, Wrong
from harness.simulation.diagram.messages import Message

NS: Final = 1_000_000_000
BEFORE_NS: Final = NS // 5
AFTER_NS: Final = NS // 2
SHOWN: Final = 90
"""Messages at the most, of those that mattered."""
ALL_SHOWN: Final = 1200
"""Messages at the most, of all in the window."""

Window = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is shown."""

    window: Window
    chosen: Sequence[Message]
    left_out: Counter[str]
    """Messages of the window that are not shown, by kind."""


def window(wrong: Wrong, marks: Sequence[Mark], spans: Sequence[Span], end_ns: int) -> Window:
    """The time to be shown."""
    first = min((span.began_ns for span in spans), default=end_ns)
    if wrong.ended_ns is None or wrong.began_ns is None:
        ended_ns = wrong.ended_ns or max((s.ended_ns or end_ns for s in spans), default=end_ns)
        return first - BEFORE_NS, min(end_ns, ended_ns + AFTER_NS)
    done_ns = wrong.ended_ns
    for mark in marks:
        if mark.at_ns >= wrong.began_ns and settles(mark, wrong):
            done_ns = max(done_ns, mark.at_ns)
            break
    else:
        done_ns = max((m.at_ns for m in marks if m.kind in _ROLES), default=done_ns)
        done_ns = max(done_ns, wrong.ended_ns)
    under_way = [s.began_ns for s in spans if (s.ended_ns or end_ns) >= wrong.began_ns]
    began_ns = min([wrong.began_ns, *(at for at in under_way if at <= done_ns)])
    return began_ns - BEFORE_NS, min(end_ns, done_ns + AFTER_NS)


_ROLES = ("leader", "cut")


def settles(mark: Mark, wrong: Wrong) -> bool:
    """Whether it is the truncation that removes what was acknowledged."""
    if mark.kind != "cut" or wrong.offset is None:
        return False
    _, _, before, _, after, *_ = mark.words.split()
    return int(after.rstrip(":")) <= wrong.offset < int(before)


def select(
    messages: Iterable[Message], wrong: Wrong, seen: Window, incidents: Sequence[int]
) -> Selection:
    """What mattered, closest to the incidents (their times) when there is too much."""
    inside = [m for m in messages if seen[0] <= m.sent_ns <= seen[1]]
    quiet = quiet_exchanges(inside, wrong)
    ranked = []
    repeated: set[tuple[str, str, str, tuple[Part, ...]]] = set()
    for message in inside:
        rank = _rank(message, wrong, quiet)
        key = message.api, message.sender, message.receiver, message.parts
        again = message.is_election and key in repeated
        repeated.add(key)
        if rank is not None and not again:
            away_ns = min((abs(message.sent_ns - at) for at in incidents), default=0)
            ranked.append((rank, away_ns, message))
    ranked.sort(key=lambda each: (each[0], each[1], each[2].sent_ns, each[2].response))
    kept = {(m.exchange, m.response) for _, _, m in ranked[:SHOWN]}
    return _selected(inside, kept, seen)


def everything(messages: Iterable[Message], seen: Window) -> Selection:
    """Every message of the window but what the harness asks, as long as there is room."""
    inside = [m for m in messages if seen[0] <= m.sent_ns <= seen[1]]
    wanted = [m for m in inside if "harness" not in (m.sender, m.receiver)][-ALL_SHOWN:]
    return _selected(inside, {(m.exchange, m.response) for m in wanted}, seen)


def _selected(
    inside: Sequence[Message], kept: set[tuple[tuple[int, int], bool]], seen: Window
) -> Selection:
    left_out = Counter(
        m.api + (" of the harness's own" if "harness" in (m.sender, m.receiver) else "")
        for m in inside
        if (m.exchange, m.response) not in kept
    )
    chosen = [m for m in inside if (m.exchange, m.response) in kept]
    return Selection(window=seen, chosen=chosen, left_out=left_out)


def quiet_exchanges(messages: Sequence[Message], wrong: Wrong) -> set[tuple[int, int]]:
    """Fetches of the partition that were answered with nothing, or nothing new."""
    loud = {
        m.exchange
        for m in messages
        if m.response
        for part in m.about(wrong.topic, wrong.partition)
        if part.values or part.offsets or part.error or "diverges" in part.words
    }
    return {m.exchange for m in messages if m.api == "Fetch" and m.response} - loud


def _rank(message: Message, wrong: Wrong, quiet: set[tuple[int, int]]) -> int | None:
    """How much a message matters, 0 the most; None: not at all."""
    if "harness" in (message.sender, message.receiver):
        return None
    about = message.about(wrong.topic, wrong.partition) if wrong.topic else []
    if about and wrong.value is not None and any(wrong.value in p.values for p in about):
        return 0
    if message.api == "Produce" and message.sender == wrong.client and about:
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
