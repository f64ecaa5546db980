"""The invariant of the nodes' own state that was broken and ended a simulated run.

The simulation checks the nodes after every event, stops at the first forbidden state, and records
it in run.json. It becomes an anomaly beside those of the detectors; its kind is the name of the
invariant. The contract does not judge it, because no configuration permits such a state.
"""

from checkers.contract.contract import Judgement
from checkers.history.run_file import RunFile
from checkers.verdict import Anomaly, DetectorResult, Status

NAME = "invariants"


def broken_invariants(run_file: RunFile) -> tuple[DetectorResult, ...]:
    """Return the broken invariant as a detector's result, if one stopped the run."""
    broken = run_file.broken
    if broken is None:
        return ()
    found = Anomaly(
        kind=broken.name,
        topic=None,
        partition=None,
        acks=None,
        judgement=Judgement.FORBIDDEN,
        count=1,
        rule=broken.sentence,
        examples=({"invoke_ns": broken.at_ns, "complete_ns": broken.at_ns},),
    )
    detail = "an invariant of the nodes' own state was broken"
    result = DetectorResult(
        name=NAME, status=Status.OK, seconds=0.0, detail=detail, anomalies=(found,)
    )
    return (result,)
