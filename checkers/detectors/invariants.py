"""What ended a simulated run: an invariant of the nodes' own state that did not hold.

Whoever runs the nodes looks at them after every event, stops at the first state that must not be,
and says so in run.json. That is a finding beside the detectors', of a kind that is called as the
invariant is; the contract has no say in it, since no configuration permits such a state.
"""

from checkers.contract.contract import Judgement
from checkers.history.run_file import RunFile
from checkers.verdict import Anomaly, DetectorResult, Status

NAME = "invariants"


def broken_invariants(run_file: RunFile) -> tuple[DetectorResult, ...]:
    """The finding, if the run was stopped by one."""
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
    detail = "the run was stopped by it"
    result = DetectorResult(
        name=NAME, status=Status.OK, seconds=0.0, detail=detail, anomalies=(found,)
    )
    return (result,)
