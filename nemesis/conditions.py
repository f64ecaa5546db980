"""What a scripted event may wait for before it strikes: `until` in a schedule.

One or more of the FORMS, joined by `and`, all of which must hold at the same moment. The table is
the grammar: a form is read as it is printed. An old bug's schedule is a few such steps; wall-clock
guesses alone would miss it on a busy machine. Evaluated against what the cluster says of itself and
what became of earlier events; what is not known does not hold, and neither does its negation.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nemesis.base import BadSchedule, ClusterView, Past


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
        """The partition that it speaks of."""
        assert self.topic is not None
        return self.topic, self.partition

    @property
    def number(self) -> int:
        """The only number that it names."""
        return self.numbers[0]

    def holds(self, view: ClusterView, past: Past) -> bool:
        """Whether that is so now."""
        return _FORMS[self.form].holds(self, view, past)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Terms that are to hold together."""

    terms: tuple[Term, ...]

    def holds(self, view: ClusterView, past: Past) -> bool:
        """Whether all of them hold now."""
        # Every term is asked, for a view that looks only where it is asked to learns so at once.
        found = [term.holds(view, past) for term in self.terms]
        return all(found)

    @property
    def in_turn(self) -> bool:
        """Whether of events that wait for it one strikes at a time."""
        return any(_FORMS[term.form].in_turn for term in self.terms)

    @property
    def partitions(self) -> tuple[tuple[str, int], ...]:
        """The partitions (topic, partition) that it speaks of."""
        return tuple(term.at for term in self.terms if term.topic is not None)

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes that it speaks of."""
        about_nodes = [term for term in self.terms if _FORMS[term.form].of_nodes]
        return tuple(number for term in about_nodes for number in term.numbers)

    @property
    def replicas(self) -> tuple[tuple[str, int, int], ...]:
        """Of how many replicas of a partition (topic, partition) it speaks at least."""
        return tuple(
            (*term.at, _FORMS[term.form].replicas(term))
            for term in self.terms
            if term.topic is not None
        )

    @property
    def events(self) -> tuple[str, ...]:
        """The events that it speaks of."""
        return tuple(term.event for term in self.terms if term.event)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    about: str
    holds: Callable[[Term, ClusterView, Past], bool]
    of_nodes: bool = True
    """Whether its numbers are nodes."""
    in_turn: bool = False
    """Whether each event that waits for it is to find it so again after the one before."""
    replicas: Callable[[Term], int] = lambda _: 0
    """How many replicas a partition must have for it."""


def _in(nodes: Sequence[int] | None, asked: Callable[[set[int]], bool]) -> bool:
    return nodes is not None and asked(set(nodes))


def _least(value: int | None, least: int) -> bool:
    return value is not None and value >= least


def _uncommitted(term: Term, view: ClusterView) -> int | None:
    ends = view.ends(*term.at)
    return None if ends is None else ends[1] - ends[0]


def _whole(view: ClusterView) -> bool:
    controllers = set(view.controllers())
    votes = _in(view.voters(), controllers.issubset)
    return votes and all(view.answers(node) is True for node in controllers)


def _compared(one: int | None, other: int | None, *, equal: bool) -> bool:
    return one is not None and other is not None and (one == other) == equal


_FORMS: Final[Mapping[str, _Form]] = {
    "leader:<topic>/<partition> is N": _Form(
        about="node N leads the partition",
        holds=lambda t, v, _: _compared(v.leader(*t.at), t.number, equal=True),
    ),
    "leader:<topic>/<partition> is-not N": _Form(
        about="another node leads it",
        holds=lambda t, v, _: _compared(v.leader(*t.at), t.number, equal=False),
    ),
    "leader:<topic>/<partition> known": _Form(
        about="it has a leader", holds=lambda t, v, _: v.leader(*t.at) is not None
    ),
    "isr:<topic>/<partition> is N,N,...": _Form(
        about="its in-sync replicas are these, in any order; `none` for no node",
        holds=lambda t, v, _: _in(v.isr(*t.at), lambda isr: isr == set(t.numbers)),
        replicas=lambda t: len(set(t.numbers)),
    ),
    "isr:<topic>/<partition> size N": _Form(
        about="it has that many in-sync replicas",
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
        about="its eligible leader replicas (KIP-966) are these; `none` for no node",
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
        about="another node is",
        holds=lambda t, v, _: _compared(v.controller(), t.number, equal=False),
    ),
    "controller is leader:<topic>/<partition>": _Form(
        about="the active controller leads the partition",
        holds=lambda t, v, _: _compared(v.controller(), v.leader(*t.at), equal=True),
    ),
    "controller is-not leader:<topic>/<partition>": _Form(
        about="another node leads the partition",
        holds=lambda t, v, _: _compared(v.controller(), v.leader(*t.at), equal=False),
    ),
    "quorum whole": _Form(
        about="every controller answers, has its vote, and all that the quorum has committed; of "
        "events that wait for it one strikes at a time",
        holds=lambda _t, v, _: _whole(v),
        in_turn=True,
    ),
    "high-watermark:<topic>/<partition> >= N": _Form(
        about="its leader names that high watermark or a later one",
        holds=lambda t, v, _: _least((v.ends(*t.at) or (None,))[0], t.number),
        of_nodes=False,
    ),
    "uncommitted:<topic>/<partition> >= N": _Form(
        about="so many records or more of the leader's log are beyond its high watermark",
        holds=lambda t, v, _: _least(_uncommitted(t, v), t.number),
        of_nodes=False,
    ),
    "node:N up": _Form(
        about="the node answers and, as a broker, is in service",
        holds=lambda t, v, _: v.answers(t.number) is True and v.fenced(t.number) is not True,
    ),
    "node:N down": _Form(
        about="the node does not answer",
        holds=lambda t, v, _: v.answers(t.number) is False,
    ),
    "node:N fenced": _Form(
        about="the other brokers hold the broker to be out of service",
        holds=lambda t, v, _: v.fenced(t.number) is True,
    ),
    "reassigning": _Form(
        about="replicas are being moved", holds=lambda _t, v, _: v.reassigning() is True
    ),
    "not reassigning": _Form(
        about="no replicas are being moved", holds=lambda _t, v, _: v.reassigning() is False
    ),
    "fault:<event> took": _Form(
        about="the event of that name (or fault, or number) has its proof of effect",
        holds=lambda t, _v, past: past.took(t.event),
    ),
    "after:<event>": _Form(
        about="the event of that name (or fault, or number) is healed",
        holds=lambda t, _v, past: past.healed(t.event),
    ),
}

FORMS: Final[Mapping[str, str]] = {form: each.about for form, each in _FORMS.items()}
"""Every condition as it is written, and what it says."""

_BLANKS: Final[Mapping[str, str]] = {
    "<topic>/<partition>": r"(?P<topic>[A-Za-z0-9._-]+)/(?P<partition>\d{1,9})",
    "<event>": r"(?P<event>[A-Za-z0-9._-]+)",
    "N,N,...": r"(?P<numbers>\d{1,18}(?:,\d{1,18})*|none)",
    "N": r"(?P<numbers>\d{1,18})",
    " ": r" +",
}
_BLANK: Final = re.compile("(" + "|".join(map(re.escape, _BLANKS)) + ")")


def _pattern(form: str) -> re.Pattern[str]:
    """The form with its blanks as groups."""
    parts = _BLANK.split(form)
    return re.compile("".join(_BLANKS.get(part, re.escape(part)) for part in parts))


_PATTERNS: Final = {form: _pattern(form) for form in _FORMS}


def parse(text: str) -> Condition:
    """Read a condition. Raises BadSchedule, naming the forms."""
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
        f"{text!r} is no condition; conditions, which may be joined by `and`, are "
        + "; ".join(FORMS)
    )
