"""Dependency graphs: which transaction must come before which, and where that is a circle.

    edges         the graph of a history, found by the engine, as far as it can be in a circle
    cycles        its circles, named as Adya and Elle name them
    graph         the native checker: edges, cycles, and what Kafka forbids of them
    list_append   the same history as Elle reads it
    jar           Elle itself, in a process of its own

Sources: Adya, Weak Consistency (1999); Kingsbury and Alvaro, Elle (2020); jepsen.tests.kafka;
KIP-98 (transactions).
"""
