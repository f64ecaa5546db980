"""Administers any Kafka cluster over Kafka's protocol: topics, settings, replicas, groups.

It knows nothing of how the cluster is run. The commands of `highwater cluster` are in
`harness.cli.cluster`, and the administrator of a run in `harness.run.administration`.

    client          finds brokers, agrees on versions, repeats requests within a time limit
    topics configs reassignments inspection voters   the requests, one function each
    coordinators    finds the coordinators of groups and transactions, and asks them again
    groups/         groups of consumers and their offsets
    transactions/   transactions, and those that hang
    descriptions    the answers as plain values
    replica_moves   a reassignment from start to end; scaling: brokers that join or leave
    balance         where replicas should be                               (pure)
    throttles       the settings that limit a reassignment                 (pure)
    tool_files      the JSON files of Kafka's tools                        (pure)
    tool_text       the output of Kafka's tools                            (pure)
"""
