"""Histories of other tools, in and out: Jepsen's Kafka workload, Kafka's verifiable clients.

    errors       what is wrong with a foreign file, and where
    edn          the notation that Jepsen writes
    jepsen_ops   the operations of Jepsen's Kafka workload, read and written
    jepsen_lines those of them that stand on lines of the common shape, read fast
    jepsen_import, jepsen_export   those operations to the rows of a history, and back
    kafkatest    the lines of Kafka's VerifiableProducer and VerifiableConsumer, to rows
    columns      rows in the making, as columns of numbers
    as_read      the log in the end, where a foreign history has no final read of its own
    imported     rows, plan and cluster record of an import: what a run directory is made of

Nothing here judges, reads or writes files: text in, rows out, and the other way round.
"""
