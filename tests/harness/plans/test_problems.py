"""What a reader sees of a plan with several mistakes: all of them, one line each."""

from typing import Any

import pytest

from harness.plans.plan import PlanError, build


def problems_of(**changes: Any) -> list[str]:
    """The lines of the error of a plan with these values."""
    with pytest.raises(PlanError) as caught:
        build({"seed": 1, **changes}, where="plan test")
    return str(caught.value).split("\n  ")


def test_all_problems_are_listed_with_one_line_each() -> None:
    """The first line says how many there are."""
    topics = [{"name": "t", "acks": 7}, {"acks": 1}]
    assert problems_of(nodes=0, topics=topics, workload={"insists": 7}) == [
        "plan test: 4 problems:",
        "nodes: input should be greater than or equal to 1, not 0",
        'topics.0.acks: acks is 0, 1 or "all", not 7',
        "topics.1.name: is missing",
        "workload.insists: input should be a valid boolean, unable to interpret input, not 7",
    ]


def test_single_problem_is_one_line() -> None:
    """It needs no heading."""
    (line,) = problems_of(nodes=0)
    assert line == "plan test: nodes: input should be greater than or equal to 1, not 0"


@pytest.mark.parametrize(
    ("changes", "place", "nearest", "key"),
    [
        ({"nodez": 3}, "nodez", "nodes", "broker_module"),
        ({"topics": [{"name": "t", "acks": 1, "partitons": 2}]}, "topics.0.partitons",
         "partitions", "min_insync_replicas"),
        ({"nemesis": {"mix": {"kill": {"weigth": 2}}}}, "nemesis.mix.kill.weigth", "weight",
         "duration_ms"),
        ({"nemesis": {"quiet": {"every_ms": 1, "for_ms": 1, "for_s": 1}}}, "nemesis.quiet.for_s",
         "for_ms", "every_ms"),
    ],
)  # fmt: skip
def test_unknown_key_names_the_nearest_key_and_the_allowed_keys(
    changes: dict[str, Any], place: str, nearest: str, key: str
) -> None:
    """The allowed keys are the keys of the table in which the unknown key stands."""
    (line,) = problems_of(**changes)
    text = f"plan test: {place}: there is no such key; did you mean {nearest}? (keys here: "
    assert line.startswith(text)
    assert key in line.removeprefix(text).removesuffix(")").split(", ")


def test_unknown_key_that_is_like_no_other_names_only_the_allowed_keys() -> None:
    """A wrong suggestion would mislead."""
    (line,) = problems_of(workload={"zzz": 1})
    assert (
        "workload.zzz: there is no such key (keys here: client, client_command, producers, " in line
    )


@pytest.mark.parametrize(
    ("system", "end"), [("kafak", 'not "kafak"; did you mean kafka?'), ("moon", 'not "moon"')]
)
def test_value_that_is_none_of_a_few_names_the_nearest(system: str, end: str) -> None:
    """If one is near."""
    (line,) = problems_of(system=system)
    assert line.startswith("plan test: system: input should be 'nodes', 'kafka' or 'external'")
    assert line.endswith(end)


def test_value_that_fits_no_branch_of_a_union_is_one_problem() -> None:
    """The path has no name of a branch, and the line names the type of each branch."""
    (line,) = problems_of(broker={"x": []})
    assert line.startswith("plan test: broker.x: input should be a valid string or ")
    assert line.endswith("valid boolean, not []")
