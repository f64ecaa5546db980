"""Conditions: what a scripted event waits for before its injection (`until` in a schedule).

A condition is one or more of the FORMS, joined by `and`; all must hold at the same moment. The
table is the grammar: a form is parsed as it is printed. With conditions, a schedule can reproduce
an old bug step by step; with times alone it would miss the bug on a busy machine. Conditions are
evaluated on the view of the cluster and the outcomes of earlier events. If a fact is unknown,
neither the form nor its negation holds.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nemesis.base import BadSchedule, ClusterView, EventOutcomes


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One form with its blanks filled in."""

    form: str
    topic: str | None = None
    partition: int = -1
    numbers: tuple[int, ...] = ()
    event: str = ""

    @property
    def at(self) -> tuple[str, int]:
        """The partition that the term names."""
        assert self.topic is not None
        return self.topic, self.partition

    @property
    def number(self) -> int:
        """The only number that the term names."""
        return self.numbers[0]

    def holds(self, view: ClusterView, outcomes: EventOutcomes) -> bool:
        """Whether the term holds now."""
        return _FORMS[self.form].holds(self, view, outcomes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Terms that must all hold."""

    terms: tuple[Term, ...]

    def holds(self, view: ClusterView, outcomes: EventOutcomes) -> bool:
        """Whether all terms hold now."""
        # Evaluate every term: a view that fetches only requested facts learns all of them at once.
        found = [term.holds(view, outcomes) for term in self.terms]
        return all(found)

    @property
    def one_at_a_time(self) -> bool:
        """Whether events that wait for this condition are injected one at a time."""
        return any(_FORMS[term.form].one_at_a_time for term in self.terms)

    @property
    def partitions(self) -> tuple[tuple[str, int], ...]:
        """The partitions (topic, partition) that the terms name."""
        return tuple(term.at for term in self.terms if term.topic is not None)

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes that the terms name."""
        about_nodes = [term for term in self.terms if _FORMS[term.form].of_nodes]
        return tuple(number for term in about_nodes for number in term.numbers)

    @property
    def replicas(self) -> tuple[tuple[str, int, int], ...]:
        """How many replicas each named partition needs: (topic, partition, replicas)."""
        return tuple(
            (*term.at, _FORMS[term.form].replicas(term))
            for term in self.terms
            if term.topic is not None
        )

    @property
    def events(self) -> tuple[str, ...]:
        """The events that the terms name."""
        return tuple(term.event for term in self.terms if term.event)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    about: str
    holds: Callable[[Term, ClusterView, EventOutcomes], bool]
    of_nodes: bool = True
    """Whether its numbers are node ids."""
    one_at_a_time: bool = False
    """Whether the condition must hold again after each event before the next event."""
    replicas: Callable[[Term], int] = lambda _: 0
    """How many replicas the partition needs so that the form can hold."""


def _in(nodes: Sequence[int] | None, asked: Callable[[set[int]], bool]) -> bool:
    return nodes is not None and asked(set(nodes))


def _least(value: int | None, least: int) -> bool:
    return value is not None and value >= least


def _uncommitted(term: Term, view: ClusterView) -> int | None:
    ends = view.ends(*term.at)
    return None if ends is None else ends[1] - ends[0]


def _whole(view: ClusterView) -> bool:
    if view.zookeepers():
        return True  # there are no votes: whoever is the controller keeps nothing by itself
    controllers = set(view.controllers())
    votes = _in(view.voters(), controllers.issubset)
    return votes and all(view.answers(node) is True for node in controllers)


def _compared(one: int | None, other: int | None, *, equal: bool) -> bool:
    return one is not None and other is not None and (one == other) == equal


_FORMS: Final[Mapping[str, _Form]] = {
    "leader:<topic>/<partition> is N": _Form(
        about="node N is the partition's leader",
        holds=lambda t, v, _: _compared(v.leader(*t.at), t.number, equal=True),
    ),
    "leader:<topic>/<partition> is-not N": _Form(
        about="another node is the partition's leader",
        holds=lambda t, v, _: _compared(v.leader(*t.at), t.number, equal=False),
    ),
    "leader:<topic>/<partition> known": _Form(
        about="the partition has a leader", holds=lambda t, v, _: v.leader(*t.at) is not None
    ),
    "isr:<topic>/<partition> is N,N,...": _Form(
        about="the in-sync replicas are these, in any order; `none` for no node",
        holds=lambda t, v, _: _in(v.isr(*t.at), lambda isr: isr == set(t.numbers)),
        replicas=lambda t: len(set(t.numbers)),
    ),
    "isr:<topic>/<partition> size N": _Form(
        about="the partition has that many in-sync replicas",
        holds=lambda t, v, _: _in(v.isr(*t.at), lambda isr: len(isr) == t.number),
        of_nodes=False,
        replicas=lambda t: t.number,
    ),
    "isr:<topic>/<partition> has N": _Form(
        about="node N is in sync", holds=lambda t, v, _: _in(v.isr(*t.at), lambda i: t.number in i)
    ),
    "isr:<topic>/<partition> lacks N": _Form(
        about="node N is not in sync",
        holds=lambda t, v, _: _in(v.isr(*t.at), lambda isr: t.number not in isr),
    ),
    "elr:<topic>/<partition> is N,N,...": _Form(
        about="the eligible leader replicas (KIP-966) are these; `none` for no node",
        holds=lambda t, v, _: _in(v.elr(*t.at), lambda elr: elr == set(t.numbers)),
        replicas=lambda t: len(set(t.numbers)),
    ),
    "elr:<topic>/<partition> has N": _Form(
        about="node N is an eligible leader replica",
        holds=lambda t, v, _: _in(v.elr(*t.at), lambda elr: t.number in elr),
    ),
    "controller is N": _Form(
        about="node N is the active controller",
        holds=lambda t, v, _: _compared(v.controller(), t.number, equal=True),
    ),
    "controller is-not N": _Form(
        about="another node is the active controller",
        holds=lambda t, v, _: _compared(v.controller(), t.number, equal=False),
    ),
    "controller is leader:<topic>/<partition>": _Form(
        about="the active controller is also the partition's leader",
        holds=lambda t, v, _: _compared(v.controller(), v.leader(*t.at), equal=True),
    ),
    "controller is-not leader:<topic>/<partition>": _Form(
        about="the active controller is not the partition's leader",
        holds=lambda t, v, _: _compared(v.controller(), v.leader(*t.at), equal=False),
    ),
    "quorum whole": _Form(
        about="every controller answers, is a voter and has all committed metadata; events that "
        "wait for this are injected one at a time",
        holds=lambda _t, v, _: _whole(v),
        one_at_a_time=True,
    ),
    "high-watermark:<topic>/<partition> >= N": _Form(
        about="the leader reports that high watermark or a later one",
        holds=lambda t, v, _: _least((v.ends(*t.at) or (None,))[0], t.number),
        of_nodes=False,
    ),
    "uncommitted:<topic>/<partition> >= N": _Form(
        about="at least N records of the leader's log are beyond its high watermark",
        holds=lambda t, v, _: _least(_uncommitted(t, v), t.number),
        of_nodes=False,
    ),
    "node:N up": _Form(
        about="the node answers, and is not fenced",
        holds=lambda t, v, _: v.answers(t.number) is True and v.fenced(t.number) is not True,
    ),
    "node:N down": _Form(
        about="the node does not answer",
        holds=lambda t, v, _: v.answers(t.number) is False,
    ),
    "node:N fenced": _Form(
        about="the other brokers report the broker as fenced",
        holds=lambda t, v, _: v.fenced(t.number) is True,
    ),
    "reassigning": _Form(
        about="a partition reassignment is in progress",
        holds=lambda _t, v, _: v.reassigning() is True,
    ),
    "not reassigning": _Form(
        about="no partition reassignment is in progress",
        holds=lambda _t, v, _: v.reassigning() is False,
    ),
    "fault:<event> took": _Form(
        about="the effect of the event of that name (or fault, or number) was measured",
        holds=lambda t, _v, outcomes: outcomes.took_effect(t.event),
    ),
    "after:<event>": _Form(
        about="the event of that name (or fault, or number) is healed",
        holds=lambda t, _v, outcomes: outcomes.healed(t.event),
    ),
}

FORMS: Final[Mapping[str, str]] = {form: each.about for form, each in _FORMS.items()}
"""Every condition as it is written, and its meaning."""

_BLANKS: Final[Mapping[str, str]] = {
    "<topic>/<partition>": r"(?P<topic>[A-Za-z0-9._-]+)/(?P<partition>\d{1,9})",
    "<event>": r"(?P<event>[A-Za-z0-9._-]+)",
    "N,N,...": r"(?P<numbers>\d{1,18}(?:,\d{1,18})*|none)",
    "N": r"(?P<numbers>\d{1,18})",
    " ": r" +",
}
_BLANK: Final = re.compile("(" + "|".join(map(re.escape, _BLANKS)) + ")")


def _pattern(form: str) -> re.Pattern[str]:
    """The form as a pattern, with its blanks as groups."""
    parts = _BLANK.split(form)
    return re.compile("".join(_BLANKS.get(part, re.escape(part)) for part in parts))


_PATTERNS: Final = {form: _pattern(form) for form in _FORMS}


def parse(text: str) -> Condition:
    """Parse a condition. Raises BadSchedule, which lists the forms."""
    return Condition(terms=tuple(_term(part) for part in re.split(r"\s+and\s+", text.strip())))


def _term(text: str) -> Term:
    for form, pattern in _PATTERNS.items():
        if match := pattern.fullmatch(text):
            found = match.groupdict()
            named = found.get("numbers") or "none"
            return Term(
                form=form,
                topic=found.get("topic"),
                partition=int(found.get("partition") or -1),
                numbers=() if named == "none" else tuple(int(n) for n in named.split(",")),
                event=found.get("event") or "",
            )
    raise BadSchedule(
        f"{text!r} is not a condition; conditions, which may be joined by `and`, are "
        + "; ".join(FORMS)
    )
