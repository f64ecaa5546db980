"""A cluster of brokers that take Kafka's properties, of any broker program.

Every node is broker and controller unless a layout says otherwise. Brokers may be added and removed
while the cluster runs. Timeouts are short, so that many failovers happen in a minute of faults; the
plan's `broker` table overrides any of them. Addresses, directories and processes are left to the
target.
"""

import shutil
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import UUID

from harness.admin.client import AdminClient
from harness.admin.errors import AdminError
from harness.brokers.choose import broker_program_of
from harness.brokers.errors import DeployError
from harness.brokers.program import BrokerProgram, NodeFiles
from harness.plans.plan import Plan, stored_plan
from harness.recording.exit_reason import read_exit_reason
from harness.recording.history import RowStream
from harness.recording.store import Run
from harness.systems import startup
from harness.systems.base import FOREVER_NS, call_in_client_network
from harness.systems.ensemble.ensemble import Ensemble
from harness.systems.monitoring.quorum_times import QuorumTimes
from harness.systems.node_roles import BROKER, COMBINED, CONTROLLER, ZOOKEEPER, Layout
from harness.targets.base import Target
from harness.workloads.clients.access import OPEN, Access
from nemesis.hosts import FIRST_ZOOKEEPER
from nodes.config import ConfigError, parse_properties
from nodes.log.checkpoints import META_PROPERTIES

T = TypeVar("T")

BROKER_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
OUTSIDE_PORT: Final = 9094
"""Where a node serves programs outside of the target's network, which reach it by a forwarder."""

PROPERTIES: Final = "server.properties"
OUTPUT: Final = "node.log"
LOGS: Final = Path("data", "log")
"""Below the volume's root, which may hold the file system's own directories."""

STOP_TIMEOUT_S: Final = 15.0

QUICK_FAILOVER: Final[Mapping[str, str]] = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "400",  # a fifth of a session, about Kafka's proportion
    "replica.lag.time.max.ms": "2000",
    "replica.socket.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.election.backoff.max.ms": "500",
    "controller.quorum.request.timeout.ms": "1000",
    "controlled.shutdown.max.wait.ms": "3000",
}


def server_properties(
    node: int,
    addresses: Mapping[int, str],
    *,
    log_dir: Path,
    cluster_id: str,
    overrides: Mapping[str, str | int | float | bool],
    layout: Layout | None = None,
    joins: Sequence[int] = (),
    outside: str | None = None,
    zookeeper: str = "",
) -> dict[str, str]:
    """Return one node's properties. Pure.

    `addresses` has every node of the layout. By default all nodes have both roles. `joins` names
    the controllers that a controller joins which is no voter from the beginning. `outside` is the
    host:port of a forwarder to the node: a listener of its own tells clients this address.
    `zookeeper` has the addresses of the ensemble in place of a metadata quorum.
    """
    layout = layout or Layout.combined(sorted(addresses))
    address = addresses[node]
    listeners = {
        BROKER: f"PLAINTEXT://{address}:{BROKER_PORT}",
        CONTROLLER: f"CONTROLLER://{address}:{CONTROLLER_PORT}",
    }
    rack = {"broker.rack": layout.racks[node]} if node in layout.racks else {}
    advertised = {}
    if outside is not None and BROKER in layout.roles[node].split(","):
        inside = listeners[BROKER]
        listeners[BROKER] += f",OUTSIDE://{address}:{OUTSIDE_PORT}"
        advertised = {
            "advertised.listeners": f"{inside},OUTSIDE://{outside}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT,"
            "CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
        }
    changed = {name: _property(value) for name, value in overrides.items()}
    return {
        "node.id": str(node),
        "process.roles": layout.roles[node],
        "listeners": ",".join(listeners[role] for role in layout.roles[node].split(",")),
        **advertised,
        **(
            _zookeeper(zookeeper, changed)
            if zookeeper
            else _quorum(addresses, layout.controllers, joins)
        ),
        "cluster.id": cluster_id,
        "log.dirs": str(log_dir),
        **rack,
        "group.initial.rebalance.delay.ms": "0",  # the delay is for groups of many members
        **_internal_topics(len(layout.brokers)),
        **QUICK_FAILOVER,
        **changed,
    }


def _zookeeper(connect: str, overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the properties by which a broker uses ZooKeeper. A session lasts as long as a broker's
    session beside a metadata quorum, unless the plan says otherwise. A broker that starts while
    faults keep ZooKeeper away waits for the heal.
    """
    session_ms = {**QUICK_FAILOVER, **overrides}["broker.session.timeout.ms"]
    return {
        "zookeeper.connect": connect,
        "zookeeper.session.timeout.ms": session_ms,
        "zookeeper.connection.timeout.ms": "60000",
    }


def _internal_topics(brokers: int) -> dict[str, str]:
    """Return how the internal topics are created: small, and with three replicas if there are so
    many brokers, which Kafka's defaults need.
    """
    few = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
    if brokers >= 3:
        return few
    return {
        **few,
        "offsets.topic.replication.factor": str(brokers),
        "transaction.state.log.replication.factor": str(brokers),
        "transaction.state.log.min.isr": str(min(2, brokers)),
    }


def _quorum(
    addresses: Mapping[int, str], voters: Sequence[int], joins: Sequence[int]
) -> dict[str, str]:
    """Return the property by which a node finds the metadata quorum.

    It says too whether the node is one of the first voters.
    """
    listener = {"controller.listener.names": "CONTROLLER"}
    at = {node: f"{addresses[node]}:{CONTROLLER_PORT}" for node in joins or voters}
    if joins:
        return {**listener, "controller.quorum.bootstrap.servers": ",".join(at.values())}
    named = ",".join(f"{node}@{at[node]}" for node in voters)
    return {**listener, "controller.quorum.voters": named}


def _directory(target: Target, node: int) -> Path:
    """Return a node's directory in the run: RUN/nodes/<node>."""
    return target.data_dir(node).parent


def _property(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class BrokerSystem:
    """The plan's cluster on `target`; files of the run go below `run`."""

    def __init__(
        self,
        plan: Plan,
        target: Target,
        run: Run,
        layout: Layout | None = None,
        *,
        program: BrokerProgram | None = None,
        outside: Mapping[int, str] | None = None,
    ) -> None:
        """`outside` has the host:port of the forwarder to each node; by default there are none."""
        self._outside = outside or {}
        self._plan = plan
        self._target = target
        self._run = run
        self.layout = layout or Layout.combined(target.node_ids())
        self._program = program or broker_program_of(plan)
        self._stopping_ns = FOREVER_NS
        zookeepers = self.layout.zookeepers
        self.ensemble = (
            Ensemble(target, zookeepers, files=self._files, output=self.output, log_name=OUTPUT)
            if zookeepers
            else None
        )
        """The ZooKeeper nodes; None beside a metadata quorum."""

    @classmethod
    def attach(cls, target: Target, run: Run) -> "BrokerSystem":
        """Return the system that another process configured on `target`, by its files in `run`.

        Raises DeployError when the files cannot be read.
        """
        try:
            plan = stored_plan(run.path)
            properties = {
                node: parse_properties((_directory(target, node) / PROPERTIES).read_text())
                for node in target.node_ids()
                if node < FIRST_ZOOKEEPER
            }
        except (OSError, ValueError, ConfigError) as error:
            raise DeployError(f"{run.path}: its nodes' configuration is lost: {error}") from error
        roles = {node: each.get("process.roles", BROKER) for node, each in properties.items()}
        servers = [node for node in target.node_ids() if node >= FIRST_ZOOKEEPER]
        layout = Layout(
            roles={**roles, **dict.fromkeys(servers, ZOOKEEPER)},
            racks={
                n: each["broker.rack"] for n, each in properties.items() if "broker.rack" in each
            },
        )
        system = cls(plan, target, run, layout, program=broker_program_of(plan, long_running=True))
        for node in layout.nodes:
            system._register(node)
        return system

    @property
    def brokers(self) -> dict[int, tuple[str, int]]:
        """The address of each broker for clients."""
        return {node: (self._target.address(node), BROKER_PORT) for node in self.layout.brokers}

    @property
    def controllers(self) -> dict[int, tuple[str, int]]:
        """The address of each controller for the metadata quorum."""
        return {
            node: (self._target.address(node), CONTROLLER_PORT) for node in self.layout.controllers
        }

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses in the form that clients take."""
        return ",".join(f"{host}:{port}" for host, port in self.brokers.values())

    @property
    def zookeepers(self) -> Mapping[int, tuple[str, int]]:
        """The address of each ZooKeeper server for clients; none beside a metadata quorum."""
        return {} if self.ensemble is None else self.ensemble.addresses

    def configure(self) -> None:
        """Write the configuration of every node and register its command."""
        if self.ensemble is not None:
            self.ensemble.configure()
        for node in self._kafka_nodes:
            self._configure(node)

    @property
    def _kafka_nodes(self) -> tuple[int, ...]:
        """All nodes but ZooKeeper's."""
        return tuple(node for node in self.layout.nodes if node not in self.layout.zookeepers)

    def _configure(self, node: int, joins: Sequence[int] = ()) -> None:
        properties = server_properties(
            node,
            {each: self._target.address(each) for each in self.layout.nodes},
            log_dir=self._target.home(node) / LOGS,
            cluster_id=self._run.run_id,
            overrides=self._plan.resolved_broker(),
            layout=self.layout,
            joins=joins,
            outside=self._outside.get(node),
            zookeeper="" if self.ensemble is None else self.ensemble.connect,
        )
        self._log_dir(node).mkdir(parents=True, exist_ok=True)
        self._program.configure(self._files(node), properties)
        self._target.publish(node)
        self._register(node)

    def _register(self, node: int) -> None:
        if self.ensemble is not None and node in self.ensemble.nodes:
            self.ensemble.register(node)
            return
        command = self._program.command(self._files(node))
        log_path = self._target.home(node) / OUTPUT
        self._target.set_command(node, command.argv, command.env, log_path)

    def _files(self, node: int) -> NodeFiles:
        home = self._target.home(node)
        return NodeFiles(
            node=node,
            local_dir=_directory(self._target, node),
            properties=home / PROPERTIES,
            log_dir=home / LOGS,
            python=self._target.python(node),
            environment=self._target.environment(node),
            path_on_node=partial(self._target.place, node),
        )

    def start(self) -> None:
        """Start all nodes and wait until each broker answers and knows all of them.

        Brokers are started after ZooKeeper serves them.
        """
        if self.ensemble is not None:
            self.ensemble.start(self._start_timeout_s)
        for node in self._kafka_nodes:
            self._target.start(node)
        self._await_brokers()

    def add_broker(self, *, node: int | None = None, rack: str | None = None) -> int:
        """Start one more broker; return its number when every broker knows it.

        By default it gets the next number and the rack with the fewest brokers. Raises DeployError,
        TargetError; then the new broker is removed again.
        """
        before = self.layout
        node = self.start_broker(node=node, rack=rack)
        try:
            self._await_brokers()
        except BaseException:
            self._undo_add(node, before)
            raise
        return node

    def start_broker(
        self, *, node: int | None = None, rack: str | None = None, controller: bool = False
    ) -> int:
        """Start one more broker without waiting; it joins by itself.

        With `controller` it is a controller without a vote too.
        """
        before = self.layout
        node = before.next_number if node is None else node
        role = COMBINED if controller else BROKER
        self.layout = before.with_node(node, role, rack or before.emptiest_rack())
        try:
            self._target.add_node(node)
            self._configure(node, joins=before.controllers if controller else ())
            self._target.start(node)
        except BaseException:
            self._undo_add(node, before)
            raise
        return node

    def _undo_add(self, node: int, before: Layout) -> None:
        self.layout = before
        if node in self._target.node_ids():
            self._target.remove_node(node)

    def directory_id(self, node: int) -> UUID | None:
        """Return the directory id of the node's disk; None until the node was started on it."""
        from harness.systems import replica_files  # its imports are slow, and no start needs them

        self._target.fetch(node, str(LOGS / META_PROPERTIES))
        return replica_files.directory_id(self._log_dir(node))

    def wipe(self, node: int) -> None:
        """Remove all data of a stopped node."""
        self._target.disks.wipe(node)
        shutil.rmtree(self._log_dir(node), ignore_errors=True)
        self._log_dir(node).mkdir()
        self._target.publish(node)

    def clean_up(self) -> list[str]:
        """Do nothing: the cluster ends with its machines."""
        return []

    @property
    def access(self) -> Access:
        """Open to every client, without authentication."""
        return OPEN

    def output(self, node: int) -> Path:
        """Return the file with the node's output so far."""
        self._target.fetch(node, OUTPUT)
        return _directory(self._target, node) / OUTPUT

    def remove_node(self, node: int, *, keep_data: bool = False) -> bool:
        """Shut a node down and remove its machine; true when the node ended by itself.

        The caller must know that the node holds no replicas any more.
        """
        ended = self.stop_node(node)
        self.layout = self.layout.without(node)
        self._target.remove_node(node, keep_data=keep_data)
        return ended

    def stop_node(self, node: int) -> bool:
        """Shut a node down; true when it ended by itself within the bound."""
        return self._target.stop(node, STOP_TIMEOUT_S)

    def _await_brokers(self) -> None:
        self._administer(
            "the cluster is not complete",
            lambda admin: startup.await_brokers(admin, self.brokers, self._check_running),
        )

    def _check_running(self) -> None:
        """Raise DeployError for a node that ended instead of starting."""
        for node in self.layout.nodes:
            if not self._target.is_running(node):
                log_path = self.output(node)
                raise DeployError(
                    f"node {node} ended by itself, exit code {self._target.exit_code(node)}: "
                    f"{read_exit_reason(log_path) or 'it did not say why'}; see {log_path}"
                )

    def create_topics(self) -> None:
        """Create the topics, and wait until all nodes see them with every replica in sync."""
        wanted, translated = self._plan.topics, self._program.topic_configs
        taken = [
            topic.model_copy(update={"configs": translated(topic.configs)}) for topic in wanted
        ]
        self._administer(
            "the topics cannot be created", lambda admin: startup.create_topics(admin, taken)
        )
        self._administer(
            "the topics' replicas are not in sync",
            lambda admin: startup.await_in_sync(admin, wanted, self.brokers),
        )

    def stop(self) -> list[int]:
        """Send SIGTERM to all nodes at once; return the nodes that had to be killed."""
        self._stopping_ns = self._run.now_ns()
        # At once: one after the other, the last nodes would have no quorum for a controlled
        # shutdown.
        nodes = self._kafka_nodes
        with ThreadPoolExecutor(max_workers=len(nodes)) as pool:
            ended = list(pool.map(lambda n: self._target.stop(n, STOP_TIMEOUT_S), nodes))
        servers = [] if self.ensemble is None else self.ensemble.stop()
        return [*(n for n, clean in zip(nodes, ended, strict=True) if not clean), *servers]

    def collect(
        self, cluster: RowStream, quorum_times: QuorumTimes, *, except_nodes: Collection[int] = ()
    ) -> None:
        """Read the files of the stopped nodes except some into the run, and the controllers'
        decisions into `cluster`. Afterwards the run has the output of every node.

        Decisions after the nodes were asked to stop are left out, because the run was over.
        """
        from harness.systems.collect import collect_decisions, collect_replicas
        from harness.systems.ensemble.collect import collect_znodes

        nodes = [node for node in self._kafka_nodes if node not in except_nodes]
        for node in self._kafka_nodes:
            self._target.fetch(node, *(() if node in nodes else (OUTPUT,)))
        log_dirs = {node: self._log_dir(node) for node in nodes}
        kept = quorum_times.committed_by_node
        collect_replicas(self._run, self._plan.topics, log_dirs, metadata_kept=kept)
        if self.ensemble is not None:
            collect_znodes(
                self._run,
                cluster,
                self.ensemble.log_directories(),
                quorum_times,
                until_ns=self._stopping_ns,
            )
            return
        collect_decisions(
            cluster,
            log_dirs,
            quorum_times,
            started_wall_ns=self._run.started_wall_ns,
            until_ns=self._stopping_ns,
        )

    def _log_dir(self, node: int) -> Path:
        return _directory(self._target, node) / LOGS

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine to its end on the clients' machine."""
        return call_in_client_network(self._target, work)

    @property
    def _start_timeout_s(self) -> float:
        return self._plan.start_timeout_s * self._program.start_timeout_factor

    def _administer(self, failure: str, work: Callable[[AdminClient], Awaitable[None]]) -> None:
        """Do `work` within a bound. Raises a DeployError that starts with `failure`."""
        timeout_s = self._start_timeout_s

        async def bounded() -> None:
            brokers = list(self.brokers.values())
            async with AdminClient(brokers, timeout_s=timeout_s) as admin:
                await work(admin)

        try:
            self.call(bounded)
        except AdminError as error:
            logs = self._run.path / "nodes"
            raise DeployError(f"{failure}: {error}; see {logs}/*/node.log") from error
