"""The output of Kafka's verifiable clients, taken over and judged."""

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.interchange import kafkatest
from checkers.interchange.errors import InterchangeError
from checkers.interchange.imported import Imported, Promises
from tests.support.checkers.judge_imports import found, judged, judged_together


def to_history(texts: dict[str, str], *, promises: Promises) -> Imported:
    """Whole texts, taken over."""
    return kafkatest.to_history(
        {name: [text].copy for name, text in texts.items()}, promises=promises
    )


PROMISES = Promises(idempotence=False)
LOGGED = "[2026-01-01 00:00:00,000] WARN [Producer clientId=producer-1] (org.apache.kafka)\n"


def line(name: str, at_ms: int = 0, **said: Any) -> str:
    """A line of a verifiable client."""
    return json.dumps({"timestamp": 1_700_000_000_000 + at_ms, "name": name, **said}) + "\n"


def sent(value: str, offset: int, partition: int = 0, topic: str = "t", at_ms: int = 5) -> str:
    """A record that was acknowledged."""
    where = {"topic": topic, "partition": partition, "offset": offset}
    return line("producer_send_success", at_ms, key=None, value=value, **where)


def failed(value: str) -> str:
    """A record of which the producer does not know."""
    error = "class org.apache.kafka.common.errors.TimeoutException"
    return line("producer_send_error", 9, key=None, value=value, topic="t", exception=error)


def polled(*records: tuple[int, str], partition: int = 0, topic: str = "t") -> str:
    """One poll that returned (offset, value) of a partition."""
    lines = [
        line(
            "record_data", 9, key=None, value=value, topic=topic, partition=partition, offset=offset
        )
        for offset, value in records
    ]
    return "".join(lines) + line("records_consumed", 9, count=len(records), partitions=[])


def told(*lines: str, ended: bool = True) -> str:
    """What a client printed from its start to its end."""
    end = line("shutdown_complete", 10) if ended else ""
    return LOGGED + line("startup_complete") + "".join(lines) + end


def judge(producer: str, consumer: str) -> tuple[str, dict[Any, Any]]:
    """The outcome, and what was found."""
    verdict = judged(to_history({"p.log": producer, "c.log": consumer}, promises=PROMISES))
    return verdict.outcome.value, found(verdict)


def test_complete_history_is_valid() -> None:
    """Two partitions, a send that failed but was written, and one that was not."""
    assigned = line("partitions_assigned", 1, partitions=[{"topic": "t", "partition": 0}])
    committed = line("offsets_committed", 9, offsets=[], success=True)
    producer = told(sent("0", 0), sent("1", 0, 1), failed("2"), failed("3"), sent("4", 1))
    consumer = told(assigned, polled((0, "0"), (1, "4")), committed,
                    polled((0, "1"), (1, "3"), partition=1))  # fmt: skip
    assert judge(producer, consumer) == ("VALID", {})


WRONG: list[tuple[str, str, tuple[str, str | None], str]] = [
    (
        told(*(sent(str(n), n, topic="lost") for n in range(4))),
        told(polled((0, "0"), (2, "2"), (3, "3"), topic="lost")),
        ("lost-write", "middle"),
        "forbidden",
    ),
    (
        told(sent("0", 0, topic="twice")),
        told(polled((0, "0"), (1, "0"), topic="twice")),
        ("duplicate", None),
        "permitted",
    ),
    (
        told(sent("0", 0, topic="back"), sent("1", 1, topic="back")),
        told(polled((0, "0"), (1, "1"), topic="back"), polled((1, "1"), topic="back")),
        ("nonmonotonic-poll", None),
        "forbidden",
    ),
    (
        told(sent("0", 0, topic="nobodys")),
        told(polled((0, "0"), (1, "7"), topic="nobodys")),
        ("phantom", "unsent"),
        "forbidden",
    ),
]


def test_lost_moved_reordered_and_foreign_records_are_found() -> None:
    """A lost write, a write at two offsets, a step back, and a record that nobody sent."""
    imports = [to_history({"p": p, "c": c}, promises=PROMISES) for p, c, _, _ in WRONG]
    verdict = judged_together({str(n): imported for n, imported in enumerate(imports)})
    for imported, (_, _, kind, judgement) in zip(imports, WRONG, strict=True):
        assert found(verdict, imported.plan["topics"][0]["name"]) == {kind: (judgement, 1)}


def test_unread_tail_or_killed_producer_is_unknown() -> None:
    """A tail that nobody read, and a producer that was killed, or whose lines are missing."""
    outcome, what = judge(told(sent("0", 0), sent("1", 1)), told(polled((0, "0"))))
    assert (outcome, what) == ("UNKNOWN", {("unseen", None): ("unknown", 1)})
    killed = told(sent("0", 0), ended=False)
    outcome, what = judge(killed, told(polled((0, "0"), (1, "1"))))
    assert (outcome, what) == ("UNKNOWN", {})
    counted = line("tool_data", 10, sent=2, acked=2, target_throughput=-1, avg_throughput=1.0)
    assert judge(told(sent("0", 0), counted), told(polled((0, "0"))))[0] == "UNKNOWN"


def test_acknowledgements_of_two_producers_have_no_order() -> None:
    """Without times of invocation, one that is printed later may have begun earlier."""
    one, two = told(sent("1.0", 5, at_ms=1)), told(sent("2.0", 4, at_ms=9))
    consumer = told(polled((4, "2.0"), (5, "1.0")))
    verdict = judged(to_history({"1": one, "2": two, "c": consumer}, promises=PROMISES))
    assert (verdict.outcome.value, found(verdict)) == ("VALID", {})


def test_orders_sends_by_their_values() -> None:
    """A producer's lines may come in another order than its sends."""
    rows = to_history({"p": told(sent("1", 1), sent("0", 0)), "c": told(polled((0, "0")))},
                      promises=PROMISES).table().to_pylist()  # fmt: skip
    sends = sorted((row["op"], row["offset"]) for row in rows if row["f"] == "send")
    assert [offset for _, offset in sends] == [0, 1]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"p": LOGGED}, "p: has no line of a verifiable producer or consumer"),
        ({"p": told(sent("0", 0)) + '{"timestamp":17'}, "p, line 5: is no JSON, or cut short"),
        ({"p": '{"a": 1}'}, "p, line 1: has no 'name'"),
        (
            {"p": told(sent("0", 0, 99_999_999_999))},
            "p, line 3: producer_send_success has 99999999999",
        ),
        (
            {"p": told(sent("0", 1 << 63))},
            "p, line 3: producer_send_success has 9223372036854775808",
        ),
        ({"p": told(sent("0", 0)), "c": told(polled((-1, "0")))}, "c, line 3: record_data has -1"),
        ({"p": told(sent("x", 0))}, "p, line 3: the value 'x' is no verifiable producer's"),
        ({"p": told(line("producer_send_success", value="0"))}, "has None as 'topic'"),
        ({"p": told(sent("0", 0), polled((0, "0")))}, "is of a producer and a consumer"),
        ({"p": told(sent("0", 0)), "q": told(sent("1", 1))}, "p and q print the same values"),
        ({"p": told(sent("0", 0)), "c": told(line("records_consumed", count=1))}, "--verbose"),
    ],
)
def test_refuses_wrong_files(texts: dict[str, str], said: str) -> None:
    """What does not fit is told with its file and line."""
    with pytest.raises(InterchangeError) as refused:
        to_history(texts, promises=PROMISES)
    assert said in str(refused.value)


PRINTED = st.sampled_from(["0", "1", "3.0", "3.7", "x"])
RECORDS = st.lists(
    st.tuples(PRINTED, st.integers(-1, 9), st.integers(0, 2)), min_size=1, max_size=9
)


@given(RECORDS, RECORDS, st.booleans(), st.integers(1, 400))
def test_fast_and_in_full_say_the_same(
    sends: list[tuple[str, int, int]], reads: list[tuple[str, int, int]], fails: bool, size: int
) -> None:
    """Lines of the common shape say what they say as JSON, in pieces of any size."""
    events = [sent(*each, at_ms=n) for n, each in enumerate(sends)]
    events.insert(len(events) // 2, failed("5") if fails else "")
    producer = told(*events)
    consumer = told(*(polled((offset, value), partition=p) for value, offset, p in reads))
    texts = {"p": producer, "c": consumer}
    slow = {name: text.replace('"key": null', '"key" : null') for name, text in texts.items()}

    def outcome(texts: dict[str, str]) -> object:
        pieces = {name: partial(_pieces, text, size) for name, text in texts.items()}
        try:
            imported = kafkatest.to_history(pieces, promises=PROMISES)
        except InterchangeError as error:
            return str(error)
        return imported.plan, imported.table().to_pylist()

    assert outcome(texts) == outcome(slow)


def _pieces(text: str, size: int) -> list[str]:
    """Whole lines, at least `size` characters at once but for the last."""
    made = [""]
    for each in text.splitlines(keepends=True):
        if len(made[-1]) >= size:
            made.append("")
        made[-1] += each
    return made
