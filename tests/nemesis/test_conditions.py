"""Conditions of scripted events: the table of forms is the grammar."""

import re
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemesis import conditions
from nemesis.base import BadSchedule
from tests.support.nemesis.fakes import FakeView


@dataclass
class FakePast:
    """Events as set."""

    proven: set[str] = field(default_factory=set)
    over: set[str] = field(default_factory=set)

    def took_effect(self, event: str) -> bool:
        """As set."""
        return event in self.proven

    def healed(self, event: str) -> bool:
        """As set."""
        return event in self.over


def view() -> FakeView:
    """Node 3 has just been fenced; partition a/0 has records that are not committed."""
    made = FakeView()
    made.leaders["a", 2] = 3
    made.isrs["e", 0] = ()
    made.eligible["a", 0] = (2,)
    made.eligible["a", 2] = ()
    made.known_ends["a", 0] = (40, 42)
    made.answering = {1: True, 2: True, 3: False, 9: True}
    made.out_of_service = {1: False, 2: False, 3: True}
    made.moving = False
    return made


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("leader:a/0 is 1", True),
        ("leader:a/0 is 2", False),
        ("leader:a/0 is-not 2", True),
        ("leader:b/0 is-not 2", False),
        ("leader:a/0 known", True),
        ("leader:b/0 known", False),
        ("isr:a/0 is 3,1,2", True),
        ("isr:a/0 is 1,2", False),
        ("isr:a/0 is none", False),
        ("isr:e/0 is none", True),
        ("isr:a/0 size 3", True),
        ("isr:a/1 size 3", False),
        ("isr:a/0 has 2", True),
        ("isr:a/0 has 4", False),
        ("isr:a/0 lacks 4", True),
        ("isr:a/0 lacks 2", False),
        ("isr:a/1 lacks 2", False),
        ("elr:a/0 is 2", True),
        ("elr:a/2 is none", True),
        ("elr:a/0 has 2", True),
        ("elr:b/0 is none", False),
        ("controller is 3", True),
        ("controller is-not 3", False),
        ("controller is leader:a/0", False),
        ("controller is-not leader:a/0", True),
        ("controller is leader:a/2", True),
        ("controller is-not leader:a/2", False),
        ("controller is-not leader:b/0", False),
        ("high-watermark:a/0 >= 40", True),
        ("high-watermark:a/0 >= 41", False),
        ("high-watermark:b/0 >= 0", False),
        ("uncommitted:a/0 >= 2", True),
        ("uncommitted:a/0 >= 3", False),
        ("node:1 up", True),
        ("node:9 up", True),
        ("node:3 up", False),
        ("node:3 down", True),
        ("node:1 down", False),
        ("node:7 down", False),
        ("node:7 up", False),
        ("node:3 fenced", True),
        ("node:1 fenced", False),
        ("reassigning", False),
        ("not reassigning", True),
        ("fault:cut took", True),
        ("fault:other took", False),
        ("after:cut", False),
        ("after:other", True),
        ("isr:a/0 size 3 and leader:a/0 is 1", True),
        ("isr:a/0 size 3 and  leader:a/0  is 2", False),
        ("leader:a/0 known and node:3 down and fault:cut took", True),
    ],
)
def test_conditions_hold_according_to_the_view(text: str, holds: bool) -> None:
    """A condition holds only on what the cluster is known to be."""
    past = FakePast({"cut"}, {"other"})
    assert conditions.parse(text).holds(view(), past) is holds


@pytest.mark.parametrize(
    ("voting", "silent", "whole"),
    [
        *(((1, 2, 3), None, True), ((1, 2, 3, 4), None, True), ((1, 3), None, False)),
        *(((1, 2, 3), 2, False), ((), None, False), (None, None, False)),
    ],
)
def test_a_quorum_is_whole_when_every_controller_votes_and_answers(
    voting: tuple[int, ...] | None, silent: int | None, whole: bool
) -> None:
    """Who has just come may vote too; who lost its disk answers no more, or has no vote yet."""
    seen = FakeView()
    seen.voting = voting
    seen.answering = {node: node != silent for node in (1, 2, 3)}
    assert conditions.parse("quorum whole").holds(seen, FakePast()) is whole


@pytest.mark.parametrize("text", ["reassigning", "not reassigning"])
def test_an_unknown_fact_makes_form_and_negation_false(text: str) -> None:
    """Neither does its contrary."""
    assert not conditions.parse(text).holds(FakeView(), FakePast())


@pytest.mark.parametrize(
    "text",
    [
        *("", "leader:a/0", "leader:a/0 size 1", "isr:a/0 is-not 1", "leader:a/0 is 1,2"),
        *("controller is leader:a", "controller size leader:a/0", "isr:a/0 has none"),
        *("leader:a/0 known and", "and", "leader:a/0 known or reassigning", "node:1", "node:x up"),
        *("after:", "fault: took", "high-watermark:a/0 > 3", "isr:a/0 is 1,,2", "not isr:a/0 is 1"),
    ],
)
def test_invalid_conditions_are_refused(text: str) -> None:
    """What cannot be evaluated is refused when the plan is read, and the forms are named."""
    with pytest.raises(BadSchedule, match=re.escape("leader:<topic>/<partition> is N;")):
        conditions.parse(text)


def filled(form: str) -> str:
    """The form with its blanks filled in."""
    for blank, text in [
        ("<topic>/<partition>", "orders.v1/12"),
        ("<event>", "first-cut"),
        ("N,N,...", "3,1"),
        (" N", " 7"),
        (":N", ":7"),
    ]:
        form = form.replace(blank, text)
    return form


@pytest.mark.parametrize("form", conditions.FORMS)
def test_every_form_is_parsed_as_it_is_printed(form: str) -> None:
    """The table of forms is what is understood: no form hides another, none lacks its words."""
    [term] = conditions.parse(filled(form)).terms
    assert term.form == form
    assert conditions.FORMS[form]


@given(st.lists(st.sampled_from(list(conditions.FORMS)), min_size=1, max_size=5))
def test_a_condition_lists_its_partitions_nodes_and_events(forms: list[str]) -> None:
    """Whoever checks a plan learns every partition, node and event of a condition."""
    condition = conditions.parse(" and ".join(map(filled, forms)))
    assert [term.form for term in condition.terms] == forms
    assert condition.partitions == (("orders.v1", 12),) * sum("<topic>" in each for each in forms)
    assert condition.events == ("first-cut",) * sum("<event>" in each for each in forms)
    assert set(condition.nodes) <= {1, 3, 7}


def test_counts_and_offsets_are_not_node_ids() -> None:
    """A high watermark of 70 names no node 70."""
    assert conditions.parse("high-watermark:a/0 >= 70 and isr:a/0 size 2").nodes == ()
    assert conditions.parse("isr:a/0 is 2,3 and node:1 down").nodes == (2, 3, 1)
