"""How long acknowledgements pause when a leader hands over in order.

    python -m tests.tools.leader_moves [--rounds 10] [--rate 500] [--client own] [--json FILE]

Three nodes on the local target, one producer (librdkafka, or highwater's own client; acks=all,
idempotent) that sends at a steady rate to one partition. In every round the partition's leader
gets SIGTERM, hands over and ends; the gap is the longest time between two acknowledgements around
that. Then it is started again and awaited in the ISR. Every acknowledged offset must be distinct:
nothing may be written over. Needs what the local target needs (root or a user namespace).
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka import Producer
from kio.schema.metadata.v12.request import MetadataRequest

from harness.plans.plan import build
from harness.recording import store
from harness.systems.base import call_in_client_network
from harness.systems.brokers import BrokerSystem
from harness.targets.local import LocalTarget
from nodes.wire.client import Channel
from nodes.wire.errors import WireError
from nodes.wire.versions import fill
from tests.support.clients.steady_senders import (
    LIBRDKAFKA,
    PATIENCE_S,
    Answers,
    LibrdkafkaSender,
    OwnSender,
    Sender,
)
from tests.support.targets.machine import local_target

NODES = 3
QUIET_MS = 1_000.0
"""How long after the node's end its move may still show in the acknowledgements."""

CLIENTS = ("librdkafka", "own")


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One hand-over: from whom to whom, and what a client saw. Milliseconds."""

    node: int
    successor: int
    stop_ms: float
    """From SIGTERM to the process's end."""
    gap_ms: float
    """The longest time without an acknowledgement, from SIGTERM to QUIET_MS after the end."""
    usual_ms: float
    """The same over as long a time without a move."""


def leader_and_isr(target: LocalTarget, system: BrokerSystem, asked: int) -> tuple[int, int]:
    """The leader of partition 0 and the size of its ISR, as node `asked` says; (-1, 0): nothing."""

    async def ask() -> tuple[int, int]:
        channel = Channel(*system.brokers[asked], client_id="test", request_timeout_s=1.0)
        try:
            answer = await channel.request(fill(MetadataRequest, topics=[{"name": "t"}]))
        except WireError:
            return -1, 0
        finally:
            channel.close()
        for partition in answer.topics[0].partitions:
            return int(partition.leader_id), len(partition.isr_nodes)
        return -1, 0

    return call_in_client_network(target, ask)


def settled(target: LocalTarget, system: BrokerSystem, asked: int) -> int:
    """Wait until all replicas are in sync; the leader."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        leader, isr = leader_and_isr(target, system, asked)
        if isr == NODES and leader >= 0:
            return leader
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"after {PATIENCE_S:.0f} s: leader {leader}, {isr} in sync")
        time.sleep(0.05)


def measure(
    directory: Path, *, rounds: int, rate_per_s: float, client: str
) -> tuple[list[Move], Answers]:
    """Make `rounds` hand-overs on a cluster whose files are below `directory`."""
    with (
        cluster(directory) as (target, system),
        sending(target, system, rate_per_s, client) as answers,
    ):
        time.sleep(1.0)
        moves = [_move(target, system, answers) for _ in range(rounds)]
    return moves, answers


@contextmanager
def cluster(directory: Path) -> Iterator[tuple[LocalTarget, BrokerSystem]]:
    """Three nodes with the topic `t`; their output is left in `directory`."""
    plan = build(
        {
            "name": "leader-moves",
            "seed": 0,
            "topics": [{"name": "t", "acks": "all", "partitions": 1, "idempotence": True}],
            "broker": {"auto.leader.rebalance.enable": False},
        },
        where="leader moves",
    )
    run = store.create(directory / "store", plan.name, versions={}, commit=None)
    with local_target(directory, nodes=NODES) as target:
        system = BrokerSystem(plan, target, run)
        system.configure()
        try:
            system.start()
            system.create_topics()
            yield target, system
        finally:
            system.stop()
            for node in target.node_ids():
                log = directory / "run/nodes" / str(node) / "node.log"
                (directory / f"node-{node}.log").write_bytes(log.read_bytes())


@contextmanager
def sending(
    target: LocalTarget, system: BrokerSystem, rate_per_s: float, client: str = CLIENTS[0]
) -> Iterator[Answers]:
    """One producer at work; its every send is answered when this ends."""
    with _sender(target, system, rate_per_s, client) as sender:
        yield sender.answers


def _sender(target: LocalTarget, system: BrokerSystem, rate_per_s: float, client: str) -> Sender:
    if client == "own":
        brokers = list(system.brokers.values())
        return OwnSender(brokers, "t", rate_per_s, target.in_client_netns())
    with target.in_client_netns():
        producer = Producer({**LIBRDKAFKA, "bootstrap.servers": system.bootstrap})
    return LibrdkafkaSender(producer, "t", rate_per_s)


def _move(target: LocalTarget, system: BrokerSystem, answers: Answers) -> Move:
    """Let the leader hand over and end, and bring it back."""
    quiet_s = QUIET_MS / 1000
    leader = settled(target, system, 1)
    other = next(node for node in target.node_ids() if node != leader)
    time.sleep(quiet_s)
    began_s = time.monotonic()
    target.stop(leader, PATIENCE_S)
    ended_s = time.monotonic()
    time.sleep(quiet_s)
    gap_ms = answers.longest_gap_ms(began_s, ended_s + quiet_s)
    successor, _ = leader_and_isr(target, system, other)
    target.start(leader)
    settled(target, system, other)
    return Move(
        node=leader,
        successor=successor,
        stop_ms=1000 * (ended_s - began_s),
        gap_ms=gap_ms,
        usual_ms=answers.longest_gap_ms(began_s - quiet_s, began_s),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one line per move, and the distribution; exit code 1 when an offset was given twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--rate", type=float, default=500.0, help="sends per second")
    parser.add_argument("--client", choices=CLIENTS, default=CLIENTS[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path, help="an empty directory for the nodes' output")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        place = options.keep or Path(scratch)
        moves, answers = measure(
            place, rounds=options.rounds, rate_per_s=options.rate, client=options.client
        )
    for move in moves:
        print(
            f"node {move.node} to {move.successor}: longest gap {move.gap_ms:.1f} ms "
            f"(usually {move.usual_ms:.1f} ms), stopped in {move.stop_ms:.0f} ms"
        )
    gaps = sorted(move.gap_ms for move in moves)
    twice = len(answers.offsets) - len(set(answers.offsets))
    print(
        f"{len(moves)} moves: median {statistics.median(gaps):.1f} ms, "
        f"90th percentile {gaps[9 * (len(gaps) - 1) // 10]:.1f} ms, at most {gaps[-1]:.1f} ms; "
        f"{len(answers.values)} acknowledged, {len(answers.failures)} failed, "
        f"{twice} offsets twice"
    )
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(move) for move in moves], indent=1))
    return 1 if twice else 0


if __name__ == "__main__":
    sys.exit(main())
