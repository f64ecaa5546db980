"""The verdict on a run: detectors find anomalies in its history, and the contract judges them.

The package reads the files of a run directory and knows nothing of brokers and faults in action;
the harness runs them and records the history.

    check            the entry point: assumptions, detectors, contract
    verdict          the result, as values and as JSON
    history          the tables of a run, and their schemas
    engines          DuckDB and Spark behind one DataFrame interface
    frames           frames that several detectors share
    completeness     is the evidence complete?
    detectors        one module per family of anomalies
    causes           recorded events that can explain an anomaly
    contract         which anomalies the configuration forbids or permits
    expectations     what the user expects beside the contract
    following        judge a run while it goes on
    elle             cycles of transactions
    interchange      histories of Jepsen and kafkatest
    analysis, job    many runs, also on a Spark cluster
"""
