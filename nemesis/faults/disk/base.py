"""The common parts of the disk faults."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nemesis.base import NotApplicable
from nemesis.faults.fault import FaultBase, Injection, Measurement, Params
from nemesis.faults.process.base import present, start
from nemesis.hosts import Hosts

KEY = "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFault(FaultBase):
    """A fault whose injections each have a key, under which evidence and probes are kept."""

    def plan_injection(
        self, selected: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Injection:
        """Every selected node, with the parameters and the key as details."""
        key = (KEY, f"{self.name}-{rng.getrandbits(32):08x}")
        return Injection(nodes=tuple(selected), details=(key, *sorted(params.values.items())))


def require_healthy_disks(hosts: Hosts, injection: Injection) -> None:
    """Raise NotApplicable if a disk already refuses writes; the fault that caused it undoes it."""
    for node in injection.nodes:
        if wrong := hosts.disks.disk_problem(node):
            raise NotApplicable(f"the disk of node {node} is {wrong} already")


def injection_key(injection: Injection) -> str:
    """The injection's key."""
    return injection.detail(KEY)


def keep_evidence(hosts: Hosts, injection: Injection, node: int, evidence: str) -> None:
    """Store the evidence of what the injection did to the node."""
    hosts.disks.keep_evidence(f"{injection_key(injection)}/{node}", evidence)


def kept_evidence(hosts: Hosts, injection: Injection, node: int) -> str | None:
    """The stored evidence for the node; None if there is none yet."""
    return hosts.disks.kept_evidence(f"{injection_key(injection)}/{node}")


def keep_damaged(hosts: Hosts, injection: Injection, node: int, paths: Sequence[str]) -> None:
    """Store which files of the node the injection changed."""
    hosts.disks.keep_evidence(_damaged(injection, node), json.dumps(list(paths)))


def measure_kept_evidence(hosts: Hosts, injection: Injection, otherwise: str) -> Measurement:
    """Confirmed if evidence is stored for every node; nodes without it report `otherwise`."""
    found = {node: kept_evidence(hosts, injection, node) for node in injection.nodes}
    text = "; ".join(f"node {node}: {evidence or otherwise}" for node, evidence in found.items())
    return Measurement(
        confirmed=all(found.values()), evidence=text, damaged=_kept_damaged(hosts, injection)
    )


def _kept_damaged(hosts: Hosts, injection: Injection) -> Mapping[int, Sequence[str]] | None:
    kept = {n: hosts.disks.kept_evidence(_damaged(injection, n)) for n in injection.nodes}
    return {node: json.loads(paths) for node, paths in kept.items() if paths} or None


def _damaged(injection: Injection, node: int) -> str:
    return f"{injection_key(injection)}/{node}/damaged"


def kill_and_keep_down(hosts: Hosts, injection: Injection, node: int) -> None:
    """Send SIGKILL to the node if it runs, and keep it down until `start_nodes`."""
    hosts.fault_state.keep_down(injection_key(injection), node)
    if hosts.processes.is_running(node):
        hosts.processes.kill(node)


def start_nodes(
    hosts: Hosts, injection: Injection, *, except_nodes: Sequence[int] = ()
) -> list[int]:
    """Release the injection's nodes and start those that do not run; return the started nodes.

    A node that another fault keeps down is not started: the heal of that fault starts it.
    """
    hosts.fault_state.release(injection_key(injection))
    return [
        node
        for node in present(hosts, injection)
        if node not in except_nodes and start(hosts, node)
    ]


def describe_lost_bytes(by_directory: Mapping[str, int], *, most: int = 4) -> str:
    """For example `1,234 bytes of logs (a-0 1,000, b-1 234), 0 of the metadata log, 12 of other
    files`.
    """
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
"""The prefix of the metadata log's directory in Kafka's layout."""
