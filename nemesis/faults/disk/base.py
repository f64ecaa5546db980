"""What the faults of disks have in common."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nemesis.base import Futile
from nemesis.faults.fault import Effect, FaultBase, Params, Strike
from nemesis.faults.process.base import present, start
from nemesis.hosts import Hosts

KEY = "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFault(FaultBase):
    """A fault whose every strike has a key of its own, under which evidence and probes are kept."""

    def aim(
        self, targets: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Strike:
        """Every target, with the parameters and the key as details."""
        key = (KEY, f"{self.name}-{rng.getrandbits(32):08x}")
        return Strike(nodes=tuple(targets), details=(key, *sorted(params.values.items())))


def require_well(hosts: Hosts, strike: Strike) -> None:
    """Raise Futile when a disk refuses already: whoever did that also undoes it."""
    for node in strike.nodes:
        if wrong := hosts.disks.ailment(node):
            raise Futile(f"the disk of node {node} is {wrong} already")


def key_of(strike: Strike) -> str:
    """The strike's own name."""
    return strike.detail(KEY)


def note(hosts: Hosts, strike: Strike, node: int, evidence: str) -> None:
    """Keep what the strike did to the node."""
    hosts.disks.note(f"{key_of(strike)}/{node}", evidence)


def noted(hosts: Hosts, strike: Strike, node: int) -> str | None:
    """What the strike did to the node, once it has."""
    return hosts.disks.noted(f"{key_of(strike)}/{node}")


def as_noted(hosts: Hosts, strike: Strike, otherwise: str) -> Effect:
    """The evidence that was kept for every node, or `otherwise` where there is none."""
    found = {node: noted(hosts, strike, node) for node in strike.nodes}
    text = "; ".join(f"node {node}: {said or otherwise}" for node, said in found.items())
    return Effect(took=all(found.values()), evidence=text)


def end_node(hosts: Hosts, strike: Strike, node: int) -> None:
    """Keep the node down until `start_nodes`: SIGKILL it, if it runs."""
    hosts.ledger.hold(key_of(strike), node)
    if hosts.processes.is_running(node):
        hosts.processes.kill(node)


def start_nodes(hosts: Hosts, strike: Strike, *, but: Sequence[int] = ()) -> list[int]:
    """The strike keeps nobody down any more: start its nodes that do not run; which those were.

    Not those that another fault keeps down: they start with its heal.
    """
    hosts.ledger.let_go(key_of(strike))
    return [node for node in present(hosts, strike) if node not in but and start(hosts, node)]


def in_bytes(by_directory: Mapping[str, int], *, most: int = 4) -> str:
    """Such as `1,234 bytes of logs (a-0 1,000, b-1 234), 0 of the metadata log, 12 of others`."""
    logs: dict[str, int] = {}
    metadata = others = 0
    for directory, size in by_directory.items():
        name = directory.rpartition("/")[2]
        if name.startswith(METADATA_LOG):
            metadata += size
        elif name.rpartition("-")[2].isdecimal():
            logs[name] = size
        else:
            others += size
    largest = sorted(logs.items(), key=lambda item: (-item[1], item[0]))
    named = ", ".join(f"{name} {size:,}" for name, size in largest[:most])
    more = f" and {len(logs) - most} more" if len(logs) > most else ""
    return (
        f"{sum(logs.values()):,} bytes of logs{f' ({named}{more})' if named else ''}, "
        f"{metadata:,} of the metadata log, {others:,} of other files"
    )


METADATA_LOG = "__cluster_metadata-"
"""How the directory of the metadata log is called, in Kafka's layout."""
