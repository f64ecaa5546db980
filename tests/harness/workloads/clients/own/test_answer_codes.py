"""All error codes of an answer are found, and nothing else."""

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.answer_codes import failures
from nodes.wire.versions import fill

OFFSET_FETCH, PRODUCE, API_VERSIONS, METADATA = 9, 0, 18, 3


def test_codes_at_every_depth_are_found() -> None:
    """An answer to OffsetFetch has codes of partitions, and one of its own."""
    partition = {
        "partition_index": 0,
        "committed_offset": 1,
        "metadata": None,
        "error_code": ErrorCode.unstable_offset_commit,
    }
    answer = fill(
        load_response_schema(OFFSET_FETCH, 7),
        error_code=ErrorCode.not_coordinator,
        topics=[
            {"name": "t", "partitions": [partition, {**partition, "error_code": ErrorCode.none}]}
        ],
    )
    assert [*failures(answer)] == [ErrorCode.not_coordinator, ErrorCode.unstable_offset_commit]


def test_an_answer_without_a_failure_has_none() -> None:
    """NONE is no failure, and an answer without parts has none either."""
    partition = {"index": 0, "error_code": ErrorCode.none, "base_offset": 7}
    answer = fill(
        load_response_schema(PRODUCE, 9),
        responses=[{"name": "t", "partition_responses": [partition]}],
    )
    assert not [*failures(answer)]
    assert not [*failures(fill(load_response_schema(PRODUCE, 9), responses=[]))]
