"""What a run must contain, and what lacks of it. It is examined before any detector.

A verdict of VALID says that something was looked at. So what the plan and the assignment promise
is compared with what was collected: clients, kinds of rows for each topic, replicas and their
batches, and whether plan, run.json and rows say the same.

    required      the table of it all, each line for some kinds of runs
    collected     what a run left behind, counted
    said          lines about plan.json and run.json
    rows          lines about clients' rows, the cluster's and the faults'
    files         lines about the nodes' files

What lacks makes the verdict UNKNOWN, with the reason. It leaves to `assumptions` what is no
question of completeness: faults that took no effect, clocks, whether the cluster settled.
"""
