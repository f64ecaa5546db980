"""Finding coordinators, and asking them again when they have moved."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.admin.client import AdminClient
from harness.admin.codes import check
from harness.admin.coordinators import MAX_KEYS, Coordinator, KeyType, ask_each
from harness.admin.errors import BadRequest, Unreachable
from tests.support.clusters.fake_brokers import FIND_COORDINATOR, FakeBrokers

Asked = list[tuple[int, list[str]]]


def asking(brokers: FakeBrokers, keys: Sequence[str], *codes: ErrorCode) -> tuple[Asked, Any]:
    """Ask for each key; the first answers are these errors. Return what was asked, and results."""
    asked: Asked = []
    left = list(codes)

    async def ask(coordinator: Coordinator, some: Sequence[str]) -> Mapping[str, int]:
        asked.append((coordinator.node_id, list(some)))
        if left:
            check(left.pop(0), "group")
        return dict.fromkeys(some, coordinator.node_id)

    async def work(admin: AdminClient) -> dict[str, int]:
        return await ask_each(admin, KeyType.group, keys, ask)

    return asked, brokers.run(work, 1.0)


def test_each_coordinator_is_asked_once_for_all_its_keys() -> None:
    brokers = FakeBrokers()
    brokers.coordinators = {"a": 1, "b": 2, "c": 1}
    asked, results = asking(brokers, ["c", "b", "a"])
    assert sorted(asked) == [(1, ["c", "a"]), (2, ["b"])]
    assert list(results.items()) == [("c", 1), ("b", 2), ("a", 1)]
    (request,) = brokers.seen(2, FIND_COORDINATOR)
    assert (request.key_type, request.coordinator_keys) == (KeyType.group, ("c", "b", "a"))


def test_key_without_coordinator_is_looked_up_again_until_it_has_one() -> None:
    brokers = FakeBrokers()
    answers = iter([{}, {}, {"a": 1}])

    def later(request: Any) -> dict[str, Any]:
        brokers.coordinators = next(answers)
        return brokers.find_coordinators(request)

    brokers.answer(FIND_COORDINATOR, later)
    asked, _ = asking(brokers, ["a"])
    assert asked == [(1, ["a"])]


@pytest.mark.parametrize(
    "code", [ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress]
)
def test_coordinator_that_moves_is_found_again(code: ErrorCode) -> None:
    brokers = FakeBrokers()
    nodes = iter([1, 2])

    def moving(request: Any) -> dict[str, Any]:
        brokers.coordinators = {"a": next(nodes)}
        return brokers.find_coordinators(request)

    brokers.answer(FIND_COORDINATOR, moving)
    asked, results = asking(brokers, ["a"], code)
    assert asked == [(1, ["a"]), (2, ["a"])]
    assert results == {"a": 2}


def test_only_keys_without_a_result_are_asked_for_again() -> None:
    brokers = FakeBrokers()
    brokers.coordinators = {"a": 1, "b": 2}
    asked, _ = asking(brokers, ["a", "b"], ErrorCode.none, ErrorCode.not_coordinator)
    assert asked == [(1, ["a"]), (2, ["b"]), (2, ["b"])]


def test_wait_for_a_coordinator_ends_with_the_key_and_the_error() -> None:
    with pytest.raises(Unreachable, match="group a: COORDINATOR_NOT_AVAILABLE"):
        asking(FakeBrokers(), ["a"])


def test_many_keys_are_asked_for_in_parts() -> None:
    brokers = FakeBrokers()
    keys = [f"g{number}" for number in range(MAX_KEYS + 1)]
    brokers.coordinators = dict.fromkeys(keys, 1)
    asked, results = asking(brokers, keys)
    assert [len(some) for _, some in asked] == [MAX_KEYS, 1]
    assert len(results) == MAX_KEYS + 1


def test_key_that_the_answer_leaves_out_is_an_error() -> None:
    brokers = FakeBrokers()
    brokers.answer(FIND_COORDINATOR, lambda _: {"coordinators": []})
    with pytest.raises(BadRequest, match="group a: the cluster's answer leaves it out"):
        asking(brokers, ["a"])
