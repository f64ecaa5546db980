"""When a partition could be written to, by the rows that tell its leader and ISR."""

from typing import Any

import pytest

from checkers.detectors.writable import longest_writable

FROM, UNTIL = 100, 200
Told = tuple[int, int | None, list[int] | None]


def _longest(*told: Told, least: int = 2) -> tuple[int, int]:
    rows: list[dict[str, Any]] = [
        {"at_ns": at_ns, "leader": leader, "isr": isr} for at_ns, leader, isr in told
    ]
    return longest_writable(rows, least, FROM, UNTIL)


def _length(span: tuple[int, int]) -> int:
    return max(span[1] - span[0], 0)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ((), (FROM, UNTIL)),
        (((50, 1, [1, 2]),), (FROM, UNTIL)),
        (((50, 1, [1]), (130, 1, [1, 2])), (130, UNTIL)),
        (((50, 1, [1]), (130, 1, [1, 2]), (140, 1, [1, 2, 3])), (130, UNTIL)),
        (((160, 1, [1]), (190, 1, [1, 2])), (FROM, 160)),
        (((110, 1, [1]), (120, 1, [1, 2]), (170, 1, [1]), (180, 1, [1, 2])), (120, 170)),
        (((50, -1, [1, 2]), (120, 2, [1, 2])), (120, UNTIL)),
        (((50, None, [1, 2]), (120, 2, [1, 2])), (120, UNTIL)),
    ],
)
def test_longest_span_with_a_leader_and_enough_in_sync_replicas(
    told: tuple[Told, ...], expected: tuple[int, int]
) -> None:
    assert _longest(*told) == expected


def test_partition_that_recovers_too_late_leaves_no_time() -> None:
    assert _length(_longest((50, 1, [1]), (250, 1, [1, 2]))) == 0


def test_partition_that_never_recovers_leaves_all_of_the_time() -> None:
    assert _longest((50, 1, [1, 2]), (110, 1, [1])) == (FROM, UNTIL)
    assert _longest((50, 1, [1, 2]), (110, -1, [1, 2])) == (FROM, UNTIL)


def test_any_number_of_in_sync_replicas_is_enough_for_acks_of_the_leader() -> None:
    assert _longest((50, 1, [1]), (130, 1, None), least=0) == (FROM, UNTIL)


def test_row_without_an_isr_tells_nothing_where_one_counts() -> None:
    assert _longest((50, 1, [1]), (130, 1, [1, 2]), (180, 1, None)) == (130, UNTIL)
