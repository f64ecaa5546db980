"""The elements of an output: which input each was made from."""

from typing import Any

from harness.plans.app_workload import Output
from harness.workloads.app.elements import TORN, UNREADABLE, Element, Extraction
from harness.workloads.clients.payload import value_of
from harness.workloads.clients.text_payload import Ids

IDS = Ids("run")
VALUE = value_of(1001, 17)
ID = IDS.id_of(VALUE)


def element(text: str, **output: Any) -> Element | None:
    """What is found in a text that was seen at 5 ns."""
    return Extraction(Output(file="out.txt", **output), IDS).element(text, 5)


def test_first_id_counts() -> None:
    """Whatever stands around it."""
    assert element(f'{{"bill": "{ID}", "of": 3}}') == Element(VALUE, None, 5)
    assert element(f"{ID} {IDS.id_of(9)}") == Element(VALUE, None, 5)


def test_pattern_says_where_the_id_is() -> None:
    """Its first group, or the whole match."""
    text = f"{IDS.id_of(9)} order={ID}"
    assert element(text, pattern=r"order=(\S+)") == Element(VALUE, None, 5)
    assert element(text, pattern=r"order=\S+") == Element(VALUE, None, 5)
    assert element("nothing", pattern=r"order=(\S+)") == Element(None, UNREADABLE, 5)


def test_numbers_can_stand_for_ids() -> None:
    """Only long ones: a price is none."""
    assert element(f"7 {VALUE} 12.50", value="number") == Element(VALUE, None, 5)
    assert element("7 12.50", value="number") == Element(None, UNREADABLE, 5)


def test_what_has_no_id_is_torn_or_unreadable() -> None:
    """A part of an id is torn."""
    assert element(ID[:-1]) == Element(None, TORN, 5)
    assert element("garbage \ufffd") == Element(None, UNREADABLE, 5)


def test_blank_ignored_and_earlier_elements_are_no_output() -> None:
    """An output may have a heading, and elements of an earlier run."""
    assert element("  ") is None
    assert element("# heading", ignore="^#") is None
    assert element(Ids("earlier").id_of(VALUE)) is None
