"""The leader epoch table, against the examples of KIP-101 and KIP-279."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.ids import Epoch, Offset
from nodes.log.errors import EpochRegression
from nodes.log.leader_epochs import LeaderEpochs


def table(*entries: tuple[int, int]) -> LeaderEpochs:
    """A table with these epochs and starts."""
    epochs = LeaderEpochs()
    for epoch, start in entries:
        epochs.assign(Epoch(epoch), Offset(start))
    return epochs


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (1, (1, 10)),  # older than every known one: it ends where the first begins
        (2, (2, 20)),
        (3, (2, 20)),  # KIP-279: not known here, so the answer is about the one before
        (5, (5, 30)),
        (6, (6, 37)),
        (7, (-1, -1)),
    ],
)
def test_the_end_offset_of_an_epoch(asked: int, answer: tuple[int, int]) -> None:
    """The largest epoch not above the asked one, and where the next one begins."""
    epochs = table((2, 10), (5, 20), (6, 30))
    assert epochs.end_offset_for(Epoch(asked), Offset(37)) == answer


def test_an_empty_table_reports_every_epoch_as_unknown() -> None:
    """No epoch, no answer."""
    assert LeaderEpochs().end_offset_for(Epoch(0), Offset(0)) == (-1, -1)
    assert LeaderEpochs().latest == -1


def test_an_epoch_without_records_is_replaced() -> None:
    """Two elections at one offset leave one entry, of the later."""
    epochs = table((1, 0), (2, 5), (3, 5))
    assert epochs.entries == ((1, 0), (3, 5))
    assert epochs.last_with_records(Offset(5)) == 1
    assert epochs.last_with_records(Offset(6)) == 3


def test_an_unused_newer_epoch_is_replaced_by_an_older_one_with_records() -> None:
    """A leader that wrote nothing follows, and gets records of the epoch before its own."""
    epochs = table((1, 0), (3, 5))
    assert epochs.assign(Epoch(1), Offset(5))
    assert epochs.entries == ((1, 0),)
    assert epochs.assign(Epoch(2), Offset(6))
    assert epochs.entries == ((1, 0), (2, 6))


def test_epochs_never_go_back_behind_records() -> None:
    """Records of an older epoch after those of a newer one would hide a divergence."""
    with pytest.raises(EpochRegression):
        table((1, 0), (3, 5)).assign(Epoch(2), Offset(6))


def test_truncation_removes_epochs_at_or_after_the_end() -> None:
    """An epoch that begins at the new end has no record any more."""
    epochs = table((1, 0), (2, 5), (3, 9))
    assert epochs.truncate_from_end(Offset(5))
    assert epochs.entries == ((1, 0),)
    assert not epochs.truncate_from_end(Offset(5))


def test_a_new_start_moves_the_first_epoch_and_removes_older_ones() -> None:
    """A start at which the first epoch begins already changes nothing."""
    epochs = table((1, 0), (2, 5), (3, 9))
    assert not epochs.truncate_from_start(Offset(0))
    assert epochs.truncate_from_start(Offset(3))
    assert epochs.entries == ((1, 3), (2, 5), (3, 9))
    assert epochs.truncate_from_start(Offset(5))
    assert epochs.entries == ((2, 5), (3, 9))
    assert not epochs.truncate_from_start(Offset(5))
    assert epochs.truncate_from_start(Offset(12))
    assert epochs.entries == ((3, 12),)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 3)), max_size=30))
def test_the_table_agrees_with_a_list_of_records(
    steps: list[tuple[int, int, int]],
) -> None:
    """Against a model that keeps the epoch of every single record."""
    epochs, model, epoch = LeaderEpochs(), list[int](), 0
    for bump, appended, cut in steps:
        epoch += bump
        if appended:
            epochs.assign(Epoch(epoch), Offset(len(model)))
            model += [epoch] * appended
        if cut == 3:
            model = model[: len(model) // 2]
            epochs.truncate_from_end(Offset(len(model)))
        starts = {e: model.index(e) for e in sorted(set(model))}
        assert dict(epochs.entries) == starts
        for asked in starts:
            last = len(model) - 1 - model[::-1].index(asked)
            assert epochs.end_offset_for(Epoch(asked), Offset(len(model))) == (asked, last + 1)
