"""The diagram as one HTML file: it opens offline, loads nothing, and runs no script.

All text from a run is escaped.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from jinja2 import Environment

from harness.reports import html
from harness.simulation.diagram.captions import value_name
from harness.simulation.diagram.events import Finding, Mark, Span
from harness.simulation.diagram.layout import LEFT, WIDTH, Drawing, draw
from harness.simulation.diagram.messages import Message
from harness.simulation.diagram.selection import Selection, removes_finding

KINDS: Final = {
    "Produce": "produce",
    "Fetch": "fetch",
    "AlterPartition": "control",
    "Vote": "control",
    "BeginQuorumEpoch": "control",
    "EndQuorumEpoch": "control",
}
STORY_KINDS: Final = ("end", "boot", "leader", "cut", "wrong")
"""Kinds of marks that become sentences of the story."""
MAX_SENTENCES: Final = 14
"""The most sentences of the story."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Everything that a page shows."""

    title: str
    repeat: str
    """The command that repeats the run."""
    finding: Finding
    marks: Sequence[Mark]
    spans: Sequence[Span]
    nodes: Sequence[str]
    base_ns: int
    mattered: Selection
    all: Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """One sentence of what happened."""

    at_s: float
    words: str
    grave: bool = False


def render(story: Story) -> str:
    """Return the page."""
    return (
        _environment()
        .get_template("diagram.html.j2")
        .render(
            story=story,
            sentences=sentences(story),
            drawings=[
                ("mattered", _drawing(story, story.mattered)),
                ("everything", _drawing(story, story.all)),
            ],
            left_out=_format_counts(story.mattered.left_out),
            left_out_of_all=_format_counts(story.all.left_out),
            width=WIDTH,
            left=LEFT,
        )
    )


@cache
def _environment() -> Environment:
    return html.environment("harness.simulation.diagram")


def _drawing(story: Story, selection: Selection) -> Drawing:
    return draw(
        selection.chosen,
        story.marks,
        story.spans,
        story.nodes,
        shown=selection.window,
        base_ns=story.base_ns,
        words=lambda message: _words(message, story.finding),
    )


def _words(message: Message, finding: Finding) -> tuple[str, str, str]:
    """Return a message's short text, long text and CSS classes."""
    about = message.about(finding.topic, finding.partition) or list(message.parts)
    caption = "; ".join(part.words for part in about if part.words) or message.error
    short = f"{message.api}{'' if not message.response else ' answer'}" + (
        f": {caption}" if caption else ""
    )
    every = "; ".join(f"{p.topic}-{p.partition} {p.words}" for p in message.parts)
    title = f"{message.api} {'answer' if message.response else 'request'} from {message.sender} to "
    title += f"{message.receiver}. {message.error} {every}".rstrip()
    if message.arrived_ns is None:
        title += ". It never arrived"
    elif message.held_up_ns is not None:
        title += f". It was held up for {(message.arrived_ns - message.sent_ns) / 1e6:.0f} ms"
    css = [KINDS.get(message.api, "other"), "answer" if message.response else "request"]
    if finding.value is not None and any(finding.value in part.values for part in about):
        css.append("focus")
    if any(part.error for part in about) or message.error:
        css.append("error")
    return short, title, " ".join(css)


def sentences(story: Story) -> list[Sentence]:
    """Return what happened in a few sentences: in order, each with its time."""
    finding, shown = story.finding, story.mattered.window
    found: list[tuple[int, str, bool]] = []
    for span in story.spans:
        ended_ns = span.ended_ns if span.ended_ns is not None else shown[1]
        if span.began_ns <= shown[1] and ended_ns >= shown[0]:
            found.append((span.began_ns, f"{span.words} begins", False))
            if ended_ns < shown[1]:
                found.append((ended_ns, f"{span.words} is healed", False))
    found += [
        (mark.at_ns, _sentence(mark, finding), mark.grave)
        for mark in story.marks
        if shown[0] <= mark.at_ns <= shown[1] and mark.kind in STORY_KINDS
    ]
    if finding.value is not None:
        found += _value_history(story, finding)
    found.sort(key=lambda each: each[0])
    grave = [each for each in found if each[2]]
    kept = (
        found
        if len(found) <= MAX_SENTENCES
        else sorted([*grave, *_rest(found, MAX_SENTENCES - len(grave))])
    )
    return [
        Sentence(at_s=(at - story.base_ns) / 1e9, words=words, grave=bad) for at, words, bad in kept
    ]


def _rest(found: Sequence[tuple[int, str, bool]], many: int) -> list[tuple[int, str, bool]]:
    return [each for each in found if not each[2]][: max(0, many)]


def _sentence(mark: Mark, finding: Finding) -> str:
    match mark.kind:
        case "wrong":
            return mark.words
        case "leader":
            return f"{mark.lane} leads {finding.place}: {mark.words.removeprefix('leader, ')}"
        case "cut" if removes_finding(mark, finding) and finding.value is not None:
            return f"{mark.lane} {mark.words}. {value_name(finding.value)} is gone"
        case _:
            return f"{mark.lane} {mark.words}"


def _value_history(story: Story, finding: Finding) -> list[tuple[int, str, bool]]:
    """Return what happened to the missing value."""
    assert finding.value is not None
    name = value_name(finding.value)
    found = []
    for message in story.mattered.chosen:
        held = any(finding.value in part.values for part in message.parts)
        if held and message.api == "Produce":
            found.append(
                (message.sent_ns, f"{message.sender} sends {name} to {message.receiver}", True)
            )
        elif held:
            found.append(
                (message.sent_ns, f"{message.sender} gives {name} to {message.receiver}", False)
            )
    return found


def _format_counts(left_out: Counter[str]) -> str:
    """Return the kinds with their counts, the most frequent first."""
    return ", ".join(f"{many:,} {name}" for name, many in left_out.most_common())
