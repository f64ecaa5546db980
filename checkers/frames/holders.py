"""Which nodes ever held a replica of each partition: a reassignment may have taken it from some of
them, and what they did with it stays in the logs of the others."""

from collections import defaultdict
from collections.abc import Mapping

from checkers.engines.engine import Engine, Frame
from checkers.history.history import TP

Holders = Mapping[tuple[str, int], frozenset[int]]
"""The nodes of each partition."""


def holders(engine: Engine, cluster: Frame, replica_ends: Frame) -> Holders:
    """Return the nodes that led a partition, were in sync or were assigned to it, or have its files
    in the end. cluster, replica_ends: frames of their schemas."""
    F = engine.functions
    found: dict[tuple[str, int], set[int]] = defaultdict(set)
    for row in engine.rows(replica_ends.select(*TP, "node").distinct()):
        found[row["topic"], row["partition"]].add(row["node"])
    named = cluster.where((F.col("kind") == F.lit("leader")) & F.col("partition").isNotNull())
    for row in engine.rows(named.select(*TP, "leader", "isr", "replicas").distinct()):
        nodes = {row["leader"], *(row["isr"] or ()), *(row["replicas"] or ())}
        found[row["topic"], row["partition"]] |= nodes - {None, -1}
    return {partition: frozenset(nodes) for partition, nodes in found.items()}
