"""The first unstable offset, against its definition."""

from hypothesis import given
from hypothesis import strategies as st

from nodes.ids import Offset
from nodes.log.transactions.unstable import UnstableTransactions


def test_an_open_transaction_is_unstable_from_its_first_record_on() -> None:
    """The earliest of them counts; nothing else does."""
    unstable = UnstableTransactions()
    assert not unstable
    assert unstable.first_unstable(Offset(9)) is None
    unstable.begin(1, Offset(3))
    unstable.begin(2, Offset(5))
    assert unstable
    assert unstable.first_unstable(Offset(9)) == 3


def test_an_ended_transaction_is_unstable_until_its_marker_is_committed() -> None:
    """The marker at 7 is committed when the high watermark is 8."""
    unstable = UnstableTransactions()
    unstable.begin(1, Offset(3))
    assert unstable.end(Offset(3), Offset(7)) == 8
    assert unstable.first_unstable(Offset(7)) == 3
    assert unstable.first_unstable(Offset(8)) is None
    assert not unstable


def test_the_end_reports_the_first_that_is_still_open() -> None:
    """This is the LSO of the index of aborted transactions."""
    unstable = UnstableTransactions()
    for producer_id, first in ((1, 3), (2, 5), (3, 6)):
        unstable.begin(producer_id, Offset(first))
    assert unstable.end(Offset(5), Offset(8)) == 3
    assert unstable.end(Offset(3), Offset(9)) == 6
    assert unstable.end(Offset(6), Offset(10)) == 11


def test_a_truncation_opens_what_ended_behind_it() -> None:
    """The caller names the open ones; a marker that is still there still waits for its commit."""
    unstable = UnstableTransactions()
    for producer_id, first in ((1, 3), (2, 5)):
        unstable.begin(producer_id, Offset(first))
    unstable.end(Offset(5), Offset(8))
    unstable.end(Offset(3), Offset(9))
    unstable.restore([(Offset(3), 1)], Offset(9))
    assert unstable.first_unstable(Offset(9)) == 3
    unstable.restore([(Offset(5), 2), (Offset(3), 1)], Offset(7))
    assert unstable.first_unstable(Offset(7)) == 3
    unstable.restore([], Offset(0))
    assert not unstable


@given(
    st.lists(
        st.tuples(st.sampled_from(("write", "end", "commit", "cut")), st.integers(0, 5)),
        max_size=40,
    )
)
def test_first_unstable_offset_is_that_of_the_definition(steps: list[tuple[str, int]]) -> None:
    """A model keeps every transaction; the high watermark goes back only with a truncation."""
    unstable = UnstableTransactions()
    history: list[tuple[int, int, int | None]] = []  # producer id, first offset, marker
    end, high_watermark = 0, 0
    for step, number in steps:
        opened = [t for t in history if t[2] is None]
        mine = next((t for t in opened if t[0] == number), None)
        if step == "write":
            if mine is None:
                unstable.begin(number, Offset(end))
                history.append((number, end, None))
            end += 1
        elif step == "end" and mine is not None:
            history[history.index(mine)] = (*mine[:2], end)
            stable = unstable.end(Offset(mine[1]), Offset(end))
            assert stable == min((t[1] for t in history if t[2] is None), default=end + 1)
            end += 1
        elif step == "commit":
            high_watermark = min(end, high_watermark + number)
        elif step == "cut":
            end = max(0, end - number)
            high_watermark = min(end, high_watermark)
            history = [
                (p, first, marker if marker is not None and marker < end else None)
                for p, first, marker in history
                if first < end
            ]
            still_open = [(Offset(t[1]), t[0]) for t in reversed(history) if t[2] is None]
            unstable.restore(still_open, Offset(end))
        wanted = [t[1] for t in history if t[2] is None or t[2] >= high_watermark]
        assert unstable.first_unstable(Offset(high_watermark)) == min(wanted, default=None)
