"""What is found quickly is what going through all would find."""

from hypothesis import given
from hypothesis import strategies as st

from checkers.causes.lookup import IntervalIndex, SuffixMinimum

MOMENTS = st.integers(0, 20)


@given(st.lists(st.tuples(MOMENTS, MOMENTS)), MOMENTS, MOMENTS)
def test_spans_that_meet_another(spans: list[tuple[int, int]], begin: int, end: int) -> None:
    """Those that overlap it, however long they last, in the order of their beginnings."""
    numbered = [(*span, number) for number, span in enumerate(spans)]
    expected = [n for b, e, n in sorted(numbered, key=lambda s: s[0]) if b <= end and begin <= e]
    assert list(IntervalIndex(numbered).overlapping(begin, end)) == expected


def test_few_are_looked_at() -> None:
    """Of many that are over, none."""
    looked = 0

    class Moment(int):
        def __lt__(self, other: int) -> bool:
            nonlocal looked
            looked += 1
            return int(self) < other

    spans = IntervalIndex((n, Moment(n + 1), n) for n in range(10_000))
    looked = 0
    assert list(spans.overlapping(5_000, 5_000)) == [4_999, 5_000]
    assert looked < 100


@given(st.lists(st.tuples(MOMENTS, MOMENTS)), MOMENTS)
def test_least_from_a_key_on(pairs: list[tuple[int, int]], key: int) -> None:
    """Of the key's own values and all greater keys'."""
    expected = min((value for known, value in pairs if known >= key), default=None)
    assert SuffixMinimum(pairs).at(key) == expected
