"""What becomes of a transaction whose end is not answered, or is refused."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from harness.workloads.clients.own.coordinator import Unavailable
from harness.workloads.clients.own.transactions import Fenced, Refused
from harness.workloads.further.own.transactions import begin_producer, end_transaction, patience_of
from tests.support.clients.recorded import Recorded

LOST = Unavailable("LOST")


class Answers:
    """A producer whose requests end in these ways, one after the other."""

    def __init__(self, answers: Sequence[Exception | None]) -> None:
        self._answers = list(answers)

    async def init(self) -> None:
        self._next()

    async def end(self, *, commit: bool) -> None:
        self._next()

    def _next(self) -> None:
        if (answer := self._answers.pop(0)) is not None:
            raise answer


def ended(answers: Sequence[Exception | None], *, commit: bool) -> tuple[Recorded, bool]:
    """The rows after these answers to the end of a transaction with a send."""
    seen = Recorded()
    sends = seen.transactions()
    sends.begin()
    sends.send(0)

    async def end() -> bool:
        stop = asyncio.Event()
        if answers[-1] is LOST:
            stop.set()
        producer: Any = Answers(answers)
        return await end_transaction(producer, sends, patience_of(stop, 0.0), commit=commit)

    return seen, asyncio.run(end())


@pytest.mark.parametrize(
    ("answers", "outcome", "goes_on"),
    [
        ([None], "ok", True),
        ([LOST, None], "ok", True),
        ([Fenced("FENCED")], "fail", False),
        ([Refused("INVALID_TXN_STATE")], "fail", False),
        ([LOST, Fenced("FENCED")], "info", False),
        ([LOST, Refused("INVALID_TXN_STATE")], "info", False),
        ([LOST], "info", False),
    ],
)
def test_refused_commit_failed_unless_an_earlier_request_may_have_counted(
    answers: Sequence[Exception | None], outcome: str, goes_on: bool
) -> None:
    """The send has the outcome of the commit."""
    seen, may_go_on = ended(answers, commit=True)
    assert may_go_on == goes_on
    assert seen.writer.of("commit-transaction", "type") == [(outcome,)]
    assert seen.writer.of("send", "type") == [(outcome,)]


@pytest.mark.parametrize("answers", [[None], [LOST, None], [LOST, Fenced("FENCED")], [LOST]])
def test_abort_leaves_sends_that_surely_failed(answers: Sequence[Exception | None]) -> None:
    """Nobody has asked for the commit."""
    seen, _ = ended(answers, commit=False)
    assert seen.writer.of("send", "type") == [("fail",)]


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [([None], "ok"), ([LOST, None], "ok"), ([Fenced("F")], "fail"), ([LOST], "info")],
)
def test_init_producer_is_recorded_with_its_outcome(
    answers: Sequence[Exception | None], outcome: str
) -> None:
    """Only a producer that was answered may write."""
    seen = Recorded()

    async def begin() -> bool:
        stop = asyncio.Event()
        if answers[-1] is LOST:
            stop.set()
        producer: Any = Answers(answers)
        return await begin_producer(producer, seen.transactions(), patience_of(stop, 0.0))

    assert asyncio.run(begin()) == (outcome == "ok")
    assert seen.writer.of("init-producer", "type") == [(outcome,)]
