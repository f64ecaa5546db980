"""The diagram as one HTML file: it opens offline, loads nothing, and runs no script.

Every text that came from a run is escaped.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from jinja2 import Environment

from harness.reports import html
from harness.simulation.diagram.captions import value_name
from harness.simulation.diagram.events import Mark, Span, Wrong
from harness.simulation.diagram.layout import LEFT, WIDTH, Drawing, draw
from harness.simulation.diagram.messages import Message
from harness.simulation.diagram.selection import Selection, settles

KINDS: Final = {
    "Produce": "produce",
    "Fetch": "fetch",
    "AlterPartition": "control",
    "Vote": "control",
    "BeginQuorumEpoch": "control",
    "EndQuorumEpoch": "control",
}
TOLD: Final = ("end", "boot", "leader", "cut", "wrong")
"""Marks that belong to the story."""
STORY: Final = 14
"""Sentences at the most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Everything that a page shows."""

    title: str
    repeat: str
    """The command that shows the same run again."""
    wrong: Wrong
    marks: Sequence[Mark]
    spans: Sequence[Span]
    nodes: Sequence[str]
    base_ns: int
    mattered: Selection
    all: Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """One of what happened, in order."""

    at_s: float
    words: str
    grave: bool = False


def render(story: Story) -> str:
    """The page."""
    return (
        _environment()
        .get_template("diagram.html.j2")
        .render(
            story=story,
            sentences=sentences(story),
            drawings=[
                ("mattered", _drawn(story, story.mattered)),
                ("everything", _drawn(story, story.all)),
            ],
            left_out=_counted(story.mattered.left_out),
            left_out_of_all=_counted(story.all.left_out),
            width=WIDTH,
            left=LEFT,
        )
    )


@cache
def _environment() -> Environment:
    return html.environment("harness.simulation.diagram")


def _drawn(story: Story, selection: Selection) -> Drawing:
    return draw(
        selection.chosen,
        story.marks,
        story.spans,
        story.nodes,
        seen=selection.window,
        base_ns=story.base_ns,
        words=lambda message: _words(message, story.wrong),
    )


def _words(message: Message, wrong: Wrong) -> tuple[str, str, str]:
    """A message's short and long text, and its class."""
    about = message.about(wrong.topic, wrong.partition) or list(message.parts)
    said = "; ".join(part.words for part in about if part.words) or message.error
    short = f"{message.api}{'' if not message.response else ' answer'}" + (
        f": {said}" if said else ""
    )
    every = "; ".join(f"{p.topic}-{p.partition} {p.words}" for p in message.parts)
    title = f"{message.api} {'answer' if message.response else 'request'} from {message.sender} to "
    title += f"{message.receiver}. {message.error} {every}".rstrip()
    if message.arrived_ns is None:
        title += ". It never arrived"
    elif message.held_up_ns is not None:
        title += f". It was held up for {(message.arrived_ns - message.sent_ns) / 1e6:.0f} ms"
    css = [KINDS.get(message.api, "other"), "answer" if message.response else "request"]
    if wrong.value is not None and any(wrong.value in part.values for part in about):
        css.append("focus")
    if any(part.error for part in about) or message.error:
        css.append("error")
    return short, title, " ".join(css)


def sentences(story: Story) -> list[Sentence]:
    """What happened, for somebody who has a minute: in order, each with its time."""
    wrong, seen = story.wrong, story.mattered.window
    found: list[tuple[int, str, bool]] = []
    for span in story.spans:
        ended_ns = span.ended_ns if span.ended_ns is not None else seen[1]
        if span.began_ns <= seen[1] and ended_ns >= seen[0]:
            found.append((span.began_ns, f"{span.words} begins", False))
            if ended_ns < seen[1]:
                found.append((ended_ns, f"{span.words} is healed", False))
    found += [
        (mark.at_ns, _told(mark, wrong), mark.grave)
        for mark in story.marks
        if seen[0] <= mark.at_ns <= seen[1] and mark.kind in TOLD
    ]
    if wrong.value is not None:
        found += _life(story, wrong)
    found.sort(key=lambda each: each[0])
    grave = [each for each in found if each[2]]
    kept = found if len(found) <= STORY else sorted([*grave, *_rest(found, STORY - len(grave))])
    return [
        Sentence(at_s=(at - story.base_ns) / 1e9, words=words, grave=bad) for at, words, bad in kept
    ]


def _rest(found: Sequence[tuple[int, str, bool]], many: int) -> list[tuple[int, str, bool]]:
    return [each for each in found if not each[2]][: max(0, many)]


def _told(mark: Mark, wrong: Wrong) -> str:
    match mark.kind:
        case "wrong":
            return mark.words
        case "leader":
            return f"{mark.lane} leads {wrong.place}: {mark.words.removeprefix('leader, ')}"
        case "cut" if settles(mark, wrong) and wrong.value is not None:
            return f"{mark.lane} {mark.words}. {value_name(wrong.value)} is gone"
        case _:
            return f"{mark.lane} {mark.words}"


def _life(story: Story, wrong: Wrong) -> list[tuple[int, str, bool]]:
    """What became of the value that is missed."""
    assert wrong.value is not None
    name = value_name(wrong.value)
    found = []
    for message in story.mattered.chosen:
        held = any(wrong.value in part.values for part in message.parts)
        if held and message.api == "Produce":
            found.append(
                (message.sent_ns, f"{message.sender} sends {name} to {message.receiver}", True)
            )
        elif held:
            found.append(
                (message.sent_ns, f"{message.sender} gives {name} to {message.receiver}", False)
            )
    return found


def _counted(left_out: Counter[str]) -> str:
    """Kinds and how many of each, the most first."""
    return ", ".join(f"{many:,} {name}" for name, many in left_out.most_common())
