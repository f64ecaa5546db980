"""Is the evidence of a run complete? This is examined before any detector.

VALID claims that there was something to judge. So the collected evidence is compared with the plan:
clients, kinds of rows for each topic, replicas and their batches, and whether plan, run.json and
rows agree. Missing evidence makes the verdict UNKNOWN, with the reason.

    required      the table of all requirements, each for some kinds of runs
    collected     the evidence of a run, counted
    documents     requirements on plan.json and run.json
    rows          requirements on the rows of clients, of the cluster and of faults
    files         requirements on the nodes' files
    assumptions   everything else that a verdict assumes: faults took effect, clocks were monotonic,
                  the cluster settled

Detectors and the contract judge the evidence itself.
"""
