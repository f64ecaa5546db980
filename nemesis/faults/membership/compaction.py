"""Compacted topics are cleaned at once, by Kafka's own means: their configurations.

Kafka has no request that starts the log cleaner. But a log is cleaned when the cleaner looks next
(`log.cleaner.backoff.ms`) if any share of it that is not clean suffices, if no record is too young,
and if the segment with the new records was rolled. The files `cleaner-offset-checkpoint` of the
nodes say up to where each log is clean.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from nemesis.base import NotApplicable
from nemesis.faults.fault import Ability, Fault, Injection, Measurement, Option
from nemesis.faults.membership.base import AdminFault, layer
from nemesis.faults.membership.configs import restored
from nemesis.hosts import Hosts

EVERY: Final = "every"
"""All compacted topics, those of the coordinators included."""
CHECKPOINT: Final = "/cleaner-offset-checkpoint"
MAX_CHECKPOINT_BYTES: Final = 1 << 20
CHANGES: Final = {
    "min.compaction.lag.ms": "0",
    "min.cleanable.dirty.ratio": "0",
    "segment.ms": "100",
}
"""The configurations under which every sealed record may be cleaned, and segments are sealed."""

Offsets = Mapping[str, int]
"""Up to where each log of a node is clean: `node N topic/partition` -> offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact(AdminFault):
    """See the module; the heal restores the configurations."""

    name: str = "records.compact"
    about: str = "compacted topics are cleaned at once and again; the heal restores their configs"
    needs: frozenset[Ability] = frozenset({Ability.ADMINISTRATION, Ability.FILES})
    options: tuple[Option, ...] = (
        Option(
            name="topic",
            default=EVERY,
            about="a compacted topic, or every one, also the coordinators' topics",
        ),
    )

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Change the configurations. Raises NotApplicable if no topic is compacted."""
        named = injection.detail("topic")
        topics = [
            topic
            for topic in hosts.cluster.topics()
            if named in (EVERY, topic)
            and "compact" in (hosts.cluster.topic_config(topic, "cleanup.policy") or "")
        ]
        if not topics:
            raise NotApplicable(f"no topic is compacted (asked for: {named})")
        before = {"topics": topics, "clean": _clean_below(hosts)}
        hosts.disks.keep_evidence(layer(injection), json.dumps(before))
        for name, value in CHANGES.items():
            hosts.cluster.set_topic_config(layer(injection), topics, name, value)

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if a log is clean up to a later offset than before."""
        before = json.loads(hosts.disks.kept_evidence(layer(injection)) or "{}")
        later = [
            f"{log} clean up to {offset}, before up to {before['clean'].get(log, 0)}"
            for log, offset in _clean_below(hosts).items()
            if log.split()[-1].rpartition("/")[0] in before["topics"]
            and offset > before["clean"].get(log, 0)
        ]
        return Measurement(
            confirmed=bool(later), evidence="; ".join(later) or "no log was cleaned yet"
        )

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed once the old values are in force."""
        return restored(hosts, injection)


def _clean_below(hosts: Hosts) -> Offsets:
    """Read the checkpoints of all nodes; a node whose disk cannot be read has none."""
    found: dict[str, int] = {}
    for node in hosts.processes.node_ids():
        try:
            for path in hosts.disks.files(node):
                if path.endswith(CHECKPOINT):
                    text = hosts.disks.read(node, path, 0, MAX_CHECKPOINT_BYTES).decode()
                    found |= {f"node {node} {log}": offset for log, offset in _rows(text)}
        except OSError:
            continue
    return found


def _rows(text: str) -> list[tuple[str, int]]:
    """Return (topic/partition, offset) of each row of a checkpoint: a version, a count, the rows.

    A file that is being written anew has none.
    """
    rows = [line.split() for line in text.splitlines()[2:]]
    return [(f"{row[0]}/{row[1]}", int(row[2])) for row in rows if len(row) == 3]


FAULTS: tuple[Fault, ...] = (Compact(),)
