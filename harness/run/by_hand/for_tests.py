"""The process of a cluster that tests start: `python -m harness.run.by_hand.for_tests OPTIONS`.

It starts a cluster of the built-in broker, forwards connections of the tests' programs to it, and
answers requests on a socket that it inherits. It lives as long as the other end of that socket is
open: when the tests end, however they end, everything is healed and removed. Without root it moves
into a user namespace first; what it inherits stays open.

OPTIONS is a JSON object, see `Options`.
"""

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.run.by_hand.forked_nodes import ForkedMachines, Forker
from harness.targets.local import rootless

QUICK_START: Final = {"broker.heartbeat.interval.ms": 100}
"""A broker that found no controller asks again after a heartbeat's interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the process gets. Sockets are inherited descriptors."""

    control: int
    """The socket of the requests; the first message on it says that the cluster is up."""
    listening: Mapping[int, int]
    """Node -> listening socket to forward. There are more nodes than at first, for new brokers."""
    outside: Mapping[int, str]
    """Node -> host:port of its listening socket, which clients are told."""
    store: Path
    nodes: int
    broker: Mapping[str, str]
    """Further properties of every node."""
    disks: bool
    """Give every node a disk of its own, which faults of disks need, and root."""

    @classmethod
    def of(cls, text: str) -> "Options":
        """Read the command line."""
        raw = json.loads(text)
        numbered = {
            name: {int(node): value for node, value in raw[name].items()}
            for name in ("listening", "outside")
        }
        return cls(**{**raw, **numbered, "store": Path(raw["store"])})


def main(text: str) -> int:
    """Run the cluster until the control socket is closed."""
    rootless.ensure_privileges()
    forker = Forker()  # before there are threads
    import nodes.kio_alone  # noqa: F401 - before anything imports kio
    from harness.run.by_hand.protocol import Connection

    options = Options.of(text)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the tests' process decides when it ends
    with socket.socket(fileno=options.control) as control:
        try:
            with ExitStack() as ends:
                handlers, facts = _up(options, forker, ends)
                Connection(control.dup()).send({"ok": facts})
                _serve(control, handlers)
        except Exception as error:
            Connection(control.dup()).send({"error": str(error) or type(error).__name__})
            raise
    return 0


def _serve(control: socket.socket, handlers: Mapping[str, Callable[..., Any]]) -> None:
    from harness.run.by_hand.server import serve

    serve(control.dup(), handlers)


def _up(
    options: Options, forker: Forker, ends: ExitStack
) -> tuple[Mapping[str, Callable[..., Any]], dict[str, Any]]:
    """Start the cluster; `ends` gets what removes it. Return its handlers, and what it is."""
    from harness.brokers.choose import broker_program_of
    from harness.plans.plan import build
    from harness.recording import store
    from harness.recording.journal import Journal
    from harness.recording.versions import versions
    from harness.run.by_hand.attached import Attached
    from harness.run.by_hand.forwarder import Forwarder
    from harness.run.by_hand.handlers import BreakingHandlers
    from harness.run.by_hand.server import Listener
    from harness.systems.brokers import OUTSIDE_PORT, BrokerSystem
    from harness.targets.linux.disks.volumes import Volume
    from harness.targets.local import LocalTarget

    broker = {**QUICK_START, **options.broker}
    raw = {"name": "tests", "seed": 0, "nodes": options.nodes, "broker": broker}
    plan = build(raw, where="kafka_cluster")
    if options.broker:
        from harness.systems import built_in_configs  # its imports are slow

        built_in_configs.check(plan, f"plan {plan.name}")
    program = broker_program_of(plan)
    run = store.create(options.store, plan.name, versions=versions(), commit=None)
    run.write_plan(plan.to_json())
    journal = ends.enter_context(Journal.create(run.path / "journal.jsonl", run_id=run.run_id))
    target = LocalTarget(
        run.run_id,
        run.path,
        range(1, options.nodes + 1),
        journal,
        volume=None if options.disks else Volume.DIRECTORY,
        machines=ForkedMachines(journal, forker),
    )
    ends.callback(_remove, target, journal)
    target.up()
    system = BrokerSystem(plan, target, run, program=program, outside=options.outside)
    system.configure()
    system.start()
    listening = {node: socket.socket(fileno=fd) for node, fd in options.listening.items()}
    forwarder = Forwarder(listening, target.address, target.in_client_netns)
    forwarder.start()
    ends.callback(forwarder.stop)
    attached = Attached(run=run, target=target, system=system, journal=journal)
    breaking = BreakingHandlers(attached, client_port=OUTSIDE_PORT)
    ends.callback(breaking.close)
    handlers = {**breaking.handlers(), "create-topic": _creating_topics(system)}
    listener = Listener(run.path, handlers)
    ends.callback(listener.close)
    threading.Thread(target=_use_the_time, name="later", daemon=True).start()
    return handlers, {"run": str(run.path), "nodes": list(system.layout.nodes)}


def _remove(target: Any, journal: Any) -> None:
    """Remove the machines. If that fails, the journal stays open, for `highwater clean`."""
    target.down()
    journal.finish()


def _creating_topics(system: Any) -> Callable[..., None]:
    from harness.admin.client import AdminClient
    from harness.plans.plan import Topic
    from harness.systems import startup

    def create_topic(
        name: str,
        partitions: int,
        replication_factor: int,
        min_insync_replicas: int,
        configs: Mapping[str, str],
    ) -> None:
        topic = Topic(
            name=name,
            acks=-1,
            partitions=partitions,
            replication_factor=replication_factor,
            min_insync_replicas=min_insync_replicas,
            configs=dict(configs),
        )

        async def create() -> None:
            async with AdminClient(list(system.brokers.values())) as admin:
                await startup.create_topics(admin, [topic])
                await startup.await_in_sync(admin, [topic], system.brokers)

        system.call(create)

    return create_topic


def _use_the_time() -> None:
    """Do what can wait until the cluster is up: load what the first fault needs, and remove what
    killed runs left behind.
    """
    import harness.run.by_hand.breaker  # noqa: F401
    from harness.targets.clean import clean

    clean(None)


if __name__ == "__main__":
    code = main(sys.argv[1])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # no thread of a closed socket may hold up the end
