"""The output of Kafka's TransactionalMessageCopier, beside that of the verifiable clients."""

import json
from typing import Any

import pytest

from checkers.interchange.errors import InterchangeError
from checkers.interchange.imported import Promises
from tests.checkers.interchange.test_kafkatest import polled, sent, to_history, told
from tests.support.checkers.judge_imports import Found, found, judged

LONG_MAX = (1 << 63) - 1
INPUT = told(*(sent(str(number), number, topic="in") for number in range(4)))
READ = polled(*((number, str(number)) for number in range(4)), topic="in")


def progress(total: int, remaining: int, name: str = "id", stage: str = "ProcessLoop") -> str:
    """A line of a copier, as Kafka 4 prints it."""
    said = {"transactionalId": name, "stage": stage, "time": "2026/11/26 20:08:21:123"}
    counts = {"totalProcessed": total, "consumed": total, "remaining": remaining}
    return json.dumps({**said, **counts}) + "\n"


def shutdown(total: int, remaining: int, name: str = "id") -> str:
    """The last line of a copier."""
    return progress(total, remaining, name, "ShutdownComplete")


def as_kafka_3(text: str) -> str:
    """The same lines, as Kafka 3 prints them."""
    lines = text.replace("transactionalId", "progress").splitlines(keepends=True)
    ended = lines[-1].replace('"progress"', '"shutdown_complete"').replace("ShutdownC", "C")
    return "".join((*lines[:-1], ended))


ALL = progress(0, 4) + progress(2, 2) + shutdown(4, 0)


def output(*values: int) -> str:
    """A consumer of input and output; these values are in the output, behind a marker each."""
    records = ((place * 2, str(value)) for place, value in enumerate(values))
    return told(READ, polled(*records, topic="out"))


def judge(consumer: str, *copiers: str, producer: str = INPUT, **more: Any) -> tuple[str, Found]:
    """The outcome, and what was found."""
    texts = {"p": producer, "c": consumer, **{f"m{n}": text for n, text in enumerate(copiers)}}
    verdict = judged(to_history(texts, promises=Promises(idempotence=False, **more)))
    return verdict.outcome.value, found(verdict)


F, P = "forbidden", "permitted"

WRONG: list[tuple[tuple[int, ...], Found]] = [
    ((0, 1, 2, 3), {}),
    ((0, 1, 3), {("uncopied", None): (F, 1)}),
    ((0, 1, 2, 3, 1), {("copied-twice", None): (F, 1)}),
    ((0, 2, 1, 3), {("copied-out-of-order", None): (F, 1)}),
]


@pytest.mark.parametrize("copier", [ALL, as_kafka_3(ALL)], ids=["kafka 4", "kafka 3"])
@pytest.mark.parametrize(("values", "expected"), WRONG)
def test_a_copier_promises_exactly_once(
    values: tuple[int, ...], expected: Found, copier: str
) -> None:
    """What is found is forbidden."""
    outcome, what = judge(output(*values), copier)
    assert what == expected
    assert outcome == ("INVALID" if expected else "VALID")


NOT_FINISHED = {
    "killed": (progress(0, 4) + progress(2, 2),),
    "stopped": (progress(0, 4) + shutdown(2, 2),),
    "the input grew later": (progress(0, 3) + shutdown(3, 0),),
    "one of two": (progress(0, 4, "a") + shutdown(4, 0, "a"), progress(0, 4, "b")),
}


@pytest.mark.parametrize("copiers", NOT_FINISHED.values(), ids=NOT_FINISHED.keys())
def test_copies_that_may_still_come_are_unknown(copiers: tuple[str, ...]) -> None:
    """Nobody knows what the group committed."""
    assert judge(output(0, 1, 3), *copiers) == ("UNKNOWN", {})


FINISHED = {
    "killed and started again": (progress(0, 4) + progress(2, 2), progress(0, 1) + shutdown(1, 0)),
    "two partitions": (progress(0, 1, "a") + shutdown(1, -1, "a"),
                       progress(0, 3, "b") + shutdown(3, 0, "b")),
    "a group": (progress(0, LONG_MAX, "a") + progress(0, 4, "a", "RebalanceComplete")
                + progress(1, 3, "a") + progress(1, 0, "a", "RebalanceComplete")
                + shutdown(1, 0, "a"),
                progress(0, LONG_MAX, "b") + progress(0, 3, "b", "RebalanceComplete")
                + shutdown(3, 0, "b")),
}  # fmt: skip


@pytest.mark.parametrize("copiers", FINISHED.values(), ids=FINISHED.keys())
def test_a_record_is_not_copied_though_the_copiers_finished(copiers: tuple[str, ...]) -> None:
    """In every mode of the copier."""
    assert judge(output(0, 1, 3), *copiers)[0] == "INVALID"
    assert judge(output(0, 1, 2, 3), *copiers) == ("VALID", {})


def test_another_promise_may_be_given() -> None:
    """Without transactions a record may be copied again."""
    kind = {("copied-twice", None): (F, 1)}
    assert judge(output(0, 1, 2, 3, 1), ALL, processing="exactly-once") == ("INVALID", kind)
    lost = judge(output(0, 1, 3), ALL, processing="at-most-once")
    assert lost == ("VALID", {("uncopied", None): (P, 1)})


def test_copiers_without_their_output_are_refused() -> None:
    """Their own lines name no record."""
    with pytest.raises(InterchangeError, match="no consumer read what the copiers wrote"):
        judge(told(READ), ALL)


def test_a_line_without_counts_is_refused() -> None:
    """Its place is told."""
    with pytest.raises(InterchangeError, match="m0, line 1: copier has None as"):
        judge(output(0), '{"progress": "id"}\n')
