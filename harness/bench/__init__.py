"""`highwater bench`: measures latency, throughput and failover of Kafka clusters side by side.

It leaves the command line to `harness.cli`, and starting clusters to `harness.systems`.

    points       what is measured, in which order, and the published figures         (pure)
    options      the options of a benchmark, checked before anything starts          (pure)
    stats        medians, spreads, ratios                                            (pure)
    results      samples, the machine, the JSON file                                 (pure)
    measurement  one measurement by clients
    compaction   how fast a broker cleans a compacted log
    outages      gaps in acknowledgements when a leader or the controller stops
    systems      a cluster that the benchmark starts, or the bootstrap servers of a running one
    admin        blocking administration of the measured cluster, by `harness.admin`
    runner       all measurements in interleaved rounds
    clients/     the clients that measure, each in a process of its own
    output/      the result as tables, as a page with plots, and the progress on stderr

The rule of every comparison: compared systems are measured in turn in the same benchmark, by the
same clients, on the same machine. A ratio is that of one round's pair; it is printed with its
spread.
"""
