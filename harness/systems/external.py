"""A cluster that somebody else runs: used through Kafka's protocol, and left as it was found.

A run writes only to topics of its own. A topic that exists already is refused, and the run's topics
are deleted at the end. Questions that only the brokers' files could answer stay undecided.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from harness.admin import topics
from harness.admin.client import Address, AdminClient, parse_bootstrap
from harness.admin.errors import AdminError
from harness.brokers.errors import DeployError
from harness.plans.plan import Plan, PlanError
from harness.recording.history import RowStream
from harness.recording.store import Run
from harness.systems import startup
from harness.systems.base import call_in_client_network
from harness.systems.monitoring.quorum_times import QuorumTimes
from harness.targets.base import Target, Unsupported
from harness.workloads.clients.access import Access

T = TypeVar("T")

REACH_S: Final = 10.0
"""How long the cluster may take to answer at all."""
READY_S: Final = 60.0
CONFIGS: Final = {"unclean.leader.election.enable": "false"}
"""Topic configs that the verdict assumes when the plan does not set them. They override the
cluster's defaults."""


def access_of(plan: Plan) -> Access:
    """Return how the plan's clients connect. Raises PlanError."""
    return Access(plan.external.resolved() if plan.external is not None else {})


def check(plan: Plan) -> None:
    """Raise PlanError for a wrong address or property, without contacting the cluster."""
    assert plan.external is not None
    parse_bootstrap(plan.external.bootstrap_servers)
    for workload in (plan.workload, *plan.more_workloads):
        access_of(plan).check(workload.client)


def reach(plan: Plan) -> None:
    """Contact the cluster before anything is made. Raises DeployError, PlanError."""
    assert plan.external is not None
    servers = plan.external.bootstrap_servers

    async def contact() -> None:
        async with _admin(plan, REACH_S) as admin:
            await admin.refresh()
            await _refuse_existing_topics(admin, plan)

    try:
        asyncio.run(contact())
    except (AdminError, TimeoutError) as error:
        raise DeployError(
            f"cannot connect to the external cluster at {servers}: {error}; is the cluster up, and "
            "are the addresses and external.properties right?"
        ) from error


async def _refuse_existing_topics(admin: AdminClient, plan: Plan) -> None:
    """Raise PlanError for a topic that exists already."""
    present = set(await topics.names(admin))
    if existing := [topic.name for topic in plan.topics if topic.name in present]:
        raise PlanError(
            f"topic {existing[0]} exists on the external cluster already, and highwater writes "
            "only to topics of its own: name another topic in the plan, or delete this one"
        )


def _admin(plan: Plan, timeout_s: float) -> AdminClient:
    assert plan.external is not None
    return AdminClient(
        parse_bootstrap(plan.external.bootstrap_servers),
        timeout_s=timeout_s,
        request_timeout_s=REACH_S,
        security=access_of(plan).channel(),
    )


class ExternalSystem:
    """Implements `harness.systems.base.DeployedSystem`."""

    def __init__(self, plan: Plan, target: Target, run: Run) -> None:
        assert plan.external is not None
        self._plan = plan
        self._target = target
        self._run = run
        self._created: list[str] = []
        self.bootstrap = plan.external.bootstrap_servers
        self.access = access_of(plan)
        """How clients connect."""
        self.brokers: Mapping[int, Address] = {}

    @property
    def controllers(self) -> Mapping[int, Address]:
        """The brokers: they forward questions about the quorum to the controller (KRaft)."""
        return self.brokers

    @property
    def zookeepers(self) -> Mapping[int, Address]:
        """None that is known."""
        return {}

    def configure(self) -> None:
        """Do nothing: somebody else configures the cluster."""

    def start(self) -> None:
        """Learn the addresses of the brokers. Raises DeployError."""

        async def find_brokers(admin: AdminClient) -> None:
            found = await topics.cluster(admin)
            self.brokers = {each.node_id: (each.host, each.port) for each in found.live}

        self._administer("the external cluster does not answer", find_brokers)

    def create_topics(self) -> None:
        """Create the plan's topics, and wait until every replica is in sync.

        Raises PlanError for a topic that exists already, and DeployError.
        """
        wanted = self._plan.topics

        async def create(admin: AdminClient) -> None:
            await _refuse_existing_topics(admin, self._plan)
            for topic in wanted:
                self._created.append(topic.name)
                await topics.create(
                    admin,
                    topic.name,
                    partitions=topic.partitions,
                    replication_factor=topic.replication_factor,
                    configs={
                        "min.insync.replicas": str(topic.min_insync_replicas),
                        **CONFIGS,
                        **topic.configs,
                    },
                    exist_ok=True,  # created by a request whose answer was lost
                )
            await startup.await_in_sync(admin, wanted, self.brokers)

        self._administer("the topics cannot be created", create)

    def stop(self) -> list[int]:
        """Do nothing: somebody else runs the cluster."""
        return []

    def collect(
        self, cluster: RowStream, quorum_times: QuorumTimes, *, except_nodes: Collection[int] = ()
    ) -> None:
        """Write tables without rows, because there are no files to read. A missing table would be
        missing evidence."""
        for table in ("replicas", "replica_ends"):
            self._run.write_table(table, ())

    def clean_up(self) -> list[str]:
        """Delete the run's topics; return the topics that may be left, and why."""

        async def delete(admin: AdminClient) -> None:
            await topics.delete(admin, self._created)

        if not self._created:
            return []
        try:
            self._administer("", delete)
        except DeployError as error:
            return [f"topics {', '.join(self._created)} may be left on the cluster{error}"]
        return []

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine to its end on the clients' machine."""
        return call_in_client_network(self._target, work)

    def output(self, node: int) -> Path:
        """Return an empty file: the nodes' output cannot be read."""
        return Path("/dev/null")

    def _unsupported(self, *_: Any, **__: Any) -> NoReturn:
        raise Unsupported("the cluster is external: the harness cannot change its nodes")

    start_broker = remove_node = directory_id = wipe = _unsupported

    def _administer(self, failure: str, work: Callable[[AdminClient], Awaitable[None]]) -> None:
        """Do `work` within a bound. Raises a DeployError that starts with `failure`."""

        async def bounded() -> None:
            async with _admin(self._plan, READY_S) as admin:
                await work(admin)

        try:
            self.call(bounded)
        except AdminError as error:
            raise DeployError(f"{failure}: {error}") from error
