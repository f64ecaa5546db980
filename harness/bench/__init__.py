"""`highwater bench`: the figures of the replication sources, measured side by side.

    points       what is measured, in which rounds, and what the sources say of it   (pure)
    options      what may be asked for, checked before anything starts               (pure)
    stats        medians, spreads, ratios                                            (pure)
    results      samples, the machine, the JSON file                                 (pure)
    frames       the requests that raw clients send, encoded once                    (pure)
    loops        the raw clients: plain sockets, nothing decoded that need not be
    rdkafka      the same measured through librdkafka
    worker       a client's process; workers starts, follows and ends it
    admin        topics and leaders, of any cluster that speaks the protocol
    systems      the built-in cluster of a run, or somebody's bootstrap servers
    outages      gaps in acknowledgements when a leader or the controller goes
    runner       everything in interleaved rounds
    table page   the result for a terminal, and as a page with plots (plots: geometry)

The rule of every comparison: what is compared was measured in turn in the same run, by the same
clients, on the same machine; a ratio is of one round's pair, and is printed with its spread.
"""
