"""A detector of another package: no acknowledgement may take longer than the callers wait."""

from collections.abc import Iterator

from checkers.contract.conditions import ACKS_0, ANY
from checkers.contract.rules import Judgement, rule
from checkers.detectors.detector import Detector, Words
from checkers.engines.engine import Frame
from checkers.frames.census import Census
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames

PATIENCE_NS = 1_000_000_000
"""How long callers wait for an acknowledgement, ns."""
LATE = "late-ack"


def late_acks(frames: Frames) -> Iterator[Frame]:
    """kind late-ack: a send that was acknowledged after PATIENCE_NS. All columns of the send."""
    F = frames.engine.functions
    lasted = F.col("complete_ns") - F.col("invoke_ns")
    found = frames.none_if_empty(frames.acked.where(lasted > F.lit(PATIENCE_NS)))
    if found is not None:
        yield evidence(frames.engine, found, kind=F.lit(LATE))


def _acks(census: Census) -> str | None:
    return None if census.rows("send", "ok") else "no acknowledged write"


LATE_ACKS = Detector(
    name=LATE,
    find=late_acks,
    lacking=_acks,
    decisive=lambda plan: False,
    rules=(
        rule(ACKS_0, LATE, Judgement.INFORMATIONAL, "nobody waits for an answer", "our callers"),
        rule(ANY, LATE, Judgement.FORBIDDEN, "callers wait for 1 s", "our callers"),
    ),
    words={
        LATE: Words(
            meaning="A send was acknowledged so late that its caller had given up.",
            one="acknowledged {n} write after more than 1 s",
            several="acknowledged {n} writes after more than 1 s",
        )
    },
)
