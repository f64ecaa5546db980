"""Whether a cause may have taken committed records: by the settings until it was over."""

import pytest

from checkers.causes.cause import Cause, CauseKind
from checkers.engines.engine import DuckDbEngine
from checkers.frames.frames import Frames
from checkers.history.settings import Change
from tests.support.histories.story import ALL, S, healthy

OVER_NS = 20 * S
ELECTION = Cause(
    kind=CauseKind.ELECTION,
    topic=ALL,
    partition=0,
    text="",
    from_ns=10 * S,
    near_until_ns=OVER_NS,
    left_isr=True,
)


@pytest.mark.parametrize(("allowed_ns", "took"), [(OVER_NS - 1, True), (OVER_NS + 1, False)])
def test_what_is_allowed_later_permits_nothing(allowed_ns: int, took: bool) -> None:
    story = healthy()
    engine = DuckDbEngine()
    try:
        frames = Frames(engine, story.sources(), story.plan)
        frames.__dict__["changes"] = [  # a cached property
            Change(
                topic=ALL,
                name="unclean.leader.election.enable",
                value="true",
                from_ns=allowed_ns,
                until_ns=60 * S,
            )
        ]
        assert frames.took_committed(ELECTION) is took
    finally:
        engine.close()
