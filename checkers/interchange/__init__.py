"""Import and export histories of other tools: Jepsen's Kafka workload, Kafka's verifiable clients.

    errors       the error in a foreign file, and its place
    edn          the notation that Jepsen writes
    jepsen_values, jepsen_fields, jepsen_ops   the operations of Jepsen's Kafka workload, read and
                 written: their parts, what is ours in them, and the whole
    jepsen_lines a fast reader for lines of the usual form
    jepsen_partitions   numbers of partitions, and values that are unique
    jepsen_import, jepsen_export   Jepsen's operations to the rows of a history, and back
    kafkatest    the lines of Kafka's VerifiableProducer and VerifiableConsumer, to rows
    copier       the lines of Kafka's TransactionalMessageCopier, and what its output proves
    columns      rows under construction, as columns of numbers
    as_read      the final log, for a foreign history without final reads
    imported     the rows and the plan of an import, for a run directory

The package converts text to rows and rows to text. It judges nothing, and reads and writes no
files.
"""
