"""Lines that are read fast say what they say when they are parsed in full."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.interchange.errors import InterchangeError
from checkers.interchange.jepsen_lines import Step, events, of_operation, steps_of
from checkers.interchange.jepsen_ops import Notation, read

Told = list[tuple[int, int, str, str, int, tuple[Step, ...]]] | str

NUMBERS = st.integers(0, 30) | st.sampled_from([0, 10**17, 10**18, 2**63 - 1, 2**64])
OFFSETS = NUMBERS.map(str) | st.just("nil")
SENDS = st.builds("[:send {} {}]".format, NUMBERS, NUMBERS) | st.builds(
    "[:send {} [{} {}]]".format, st.integers(-3, 9), OFFSETS, NUMBERS
)
PAIRS = st.lists(st.builds("[{} {}]".format, NUMBERS, NUMBERS), max_size=3).map(" ".join)
POLLED = st.lists(st.tuples(st.integers(0, 3), PAIRS), max_size=3, unique_by=lambda each: each[0])
POLLS = st.just("[:poll]") | POLLED.map(
    lambda keys: f"[:poll {{{', '.join(f'{key} [{pairs}]' for key, pairs in keys)}}}]"
)
VALUES = st.lists(SENDS | POLLS, max_size=3).map(lambda steps: f"[{' '.join(steps)}]")
ORDERS = st.sampled_from(
    [
        ("index", "time", "type", "process", "f", "value"),
        ("process", "type", "f", "value", "index", "time"),
        ("type", "f", "value", "time", "process"),
    ]
)
MORE = st.sampled_from(
    ["", "", "", ", :error [:timeout 1/2 0x1f]", ", :rebalance-log [{:keys [1]}]", ", :x {:y #{1}}"]
)


@st.composite
def lines(draw: st.DrawFn) -> str:
    """A line of an operation, or nearly one."""
    fields = {
        "index": draw(NUMBERS),
        "time": draw(NUMBERS),
        "type": f":{draw(st.sampled_from(['invoke', 'ok', 'fail', 'info', 'other']))}",
        "process": draw(st.integers(0, 5) | st.sampled_from([":nemesis", 2**31, "007"])),
        "f": f":{draw(st.sampled_from(['send', 'poll', 'txn', 'txn', 'crash']))}",
        "value": draw(VALUES),
    }
    named = ", ".join(f":{name} {fields[name]}" for name in draw(ORDERS))
    tag = draw(st.sampled_from(["#jepsen.history.Op", ""]))
    line = f"{tag}{{{named}{draw(MORE)}}}"
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(line) - 1))
        line = (
            line[:at] + draw(st.sampled_from(["", " ", "1", "]", "\n", ";", "-"])) + line[at + 1 :]
        )
    return line


def told(text: Callable[[], Told]) -> Told:
    """What is read, or why nothing is."""
    try:
        return text()
    except InterchangeError as error:
        return str(error)


def fast(text: str, size: int) -> Told:
    """In pieces of whole lines."""
    found: Told = []
    whole = text.splitlines(keepends=True)
    pieces = ["".join(whole[at : at + size]) for at in range(0, len(whole), size)]
    for event in events(lambda: pieces, Notation.EDN, found.clear):
        found.append((*event[:5], tuple(steps_of(event))))
    return found


def in_full(text: str) -> Told:
    """Parsed, all of it."""
    return [
        (*event[:5], tuple(steps_of(event)))
        for event in map(of_operation, read(text, Notation.EDN))
    ]


@given(st.lists(lines(), max_size=6), st.integers(1, 3))
def test_fast_and_in_full_say_the_same(made: list[str], size: int) -> None:
    """Whatever the lines, and whatever is wrong with them."""
    text = "\n".join(made)
    one, other = told(lambda: fast(text, size)), told(lambda: in_full(text))
    # Of several things that are wrong, each may name another.
    assert one == other or (isinstance(one, str) and isinstance(other, str))


@pytest.mark.parametrize("wrap", ["[{}]", "; a comment\n{}\n", "{}\n\n", "#_{{:x 1}} {}"])
def test_maps_that_stand_on_no_lines_of_their_own(wrap: str) -> None:
    """A vector of them, comments, gaps and what is discarded."""
    text = wrap.format(
        "{:type :invoke, :f :poll, :value [[:poll]], :process 0, :time 1}\n"
        "{:type :ok, :f :poll,\n :value [[:poll {1 [[0 7]]}]], :process 0, :time 2}"
    )
    assert fast(text, 1) == in_full(text)
    assert len(fast(text, 1)) == 2
