"""Dependency graphs: which transaction must come before which other one, and where that is a cycle.

The package judges transactions only. `checkers.check` judges everything else in a history.

    edges         the writes and reads of a history in version order, found by the engine
    links         the edges that may be in a cycle, as arrays of integers
    cycles        the cycles, with the names of Adya and Elle
    dependency    an edge of a cycle, for people
    graph         the native checker: edges, cycles, and the cycles that Kafka forbids
    list_append   the history in the form that Elle reads
    jar           Elle itself, in a separate process

Sources: Adya, Weak Consistency (1999); Kingsbury and Alvaro, Elle (2020); jepsen.tests.kafka;
KIP-98 (transactions).
"""
