"""Random outputs of a tested program: the detector counts what plain Python counts."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.check import check
from checkers.detectors.outputs import KINDS
from tests.support.checkers.reference_outputs import find_in_outputs
from tests.support.histories.golden.outputs import PROGRAM, program
from tests.support.histories.story import ONE, healthy, value

OUTPUTS = st.lists(
    st.tuples(
        st.integers(0, 24),  # the sequence: 0 and 21.. were never sent
        st.integers(0, 1),  # the output's partition
        st.integers(0, 30),  # its offset
        st.integers(0, 3),  # when it was seen
        st.sampled_from([None, None, None, "torn", "unreadable"]),
    ),
    max_size=40,
    unique_by=lambda each: each[1:3],
)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(OUTPUTS, st.sets(st.integers(0, 19), max_size=3), st.sets(st.integers(1, 20), max_size=4))
def test_program_outputs_are_counted_as_in_plain_python(
    outputs: list[tuple[int, int, int, int, str | None]], in_partition_1: set[int], again: set[int]
) -> None:
    """Whatever the program wrote, and whatever the input topic has."""
    story = healthy()
    program(story, ())
    for row in story.rows("final-read", ONE):
        if row["offset"] in in_partition_1:
            row["partition"] = 1
    for number, sequence in enumerate(sorted(again)):
        story.read_in_the_end(ONE, 20 + number, value(2, sequence))
    for sequence, partition, offset, seen_s, error in outputs:
        made = None if error else value(2, sequence)
        columns = {"partition": partition, "offset": offset, "value": made, "error": error}
        story.row("app-output", PROGRAM, 20 + seen_s, **columns)
    verdict = check(story.sources(), story.plan)
    assert not verdict.extra_reasons
    counts: Counter[tuple[str, str | None]] = Counter()
    for anomaly in verdict.anomalies:
        if anomaly.kind in KINDS:
            counts[anomaly.kind, anomaly.aspect] += anomaly.count
    assert counts == find_in_outputs(story.history, ONE)
