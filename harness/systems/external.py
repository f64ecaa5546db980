"""A cluster that somebody else runs: asked by Kafka's protocol, and given back as it was.

Only topics of the run's own are written to: one that is there already is refused, and those that
were made are deleted at the end. What only the brokers' files tell stays open.
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
from harness.systems.observer.quorum_times import QuorumTimes
from harness.targets.base import Target, Unsupported
from harness.workloads.clients.access import Access

T = TypeVar("T")

REACH_S: Final = 10.0
"""How long the cluster may take to answer at all."""
READY_S: Final = 60.0
CONFIGS: Final = {"unclean.leader.election.enable": "false"}
"""What the verdict takes for granted where a plan says nothing, whatever the cluster's default."""


def access_of(plan: Plan) -> Access:
    """How the plan's clients get in. Raises PlanError."""
    return Access(plan.external.resolved() if plan.external is not None else {})


def check(plan: Plan) -> None:
    """Raises PlanError for what can be seen to be wrong without asking anybody."""
    assert plan.external is not None
    parse_bootstrap(plan.external.bootstrap_servers)
    access_of(plan).check(plan.workload.client)


def reach(plan: Plan) -> None:
    """Ask the cluster who it is, before anything is made. Raises DeployError, PlanError."""
    assert plan.external is not None
    servers = plan.external.bootstrap_servers

    async def asking() -> None:
        async with _admin(plan, REACH_S) as admin:
            await admin.refresh()
            await _refuse_taken(admin, plan)

    try:
        asyncio.run(asking())
    except (AdminError, TimeoutError) as error:
        raise DeployError(
            f"the external cluster at {servers} does not let us in: {error}; are the addresses and "
            "external.properties right, and is it up?"
        ) from error


async def _refuse_taken(admin: AdminClient, plan: Plan) -> None:
    """Raises PlanError for a topic that is there already."""
    there = set(await topics.names(admin))
    if taken := [topic.name for topic in plan.topics if topic.name in there]:
        raise PlanError(
            f"topic {taken[0]} is on the external cluster already, and highwater writes only to "
            "topics of its own: name another one in the plan, or delete it"
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
    """See `harness.systems.base.System`."""

    def __init__(self, plan: Plan, target: Target, run: Run) -> None:
        assert plan.external is not None
        self._plan = plan
        self._target = target
        self._run = run
        self._made: list[str] = []
        self.bootstrap = plan.external.bootstrap_servers
        self.access = access_of(plan)
        """How clients get in."""
        self.brokers: Mapping[int, Address] = {}

    @property
    def controllers(self) -> Mapping[int, Address]:
        """Who is asked for the quorum: brokers pass that on to the controller (KRaft)."""
        return self.brokers

    def configure(self) -> None:
        """Not ours to configure."""

    def start(self) -> None:
        """Learn who the brokers are. Raises DeployError."""

        async def look(admin: AdminClient) -> None:
            found = await topics.cluster(admin)
            self.brokers = {each.node_id: (each.host, each.port) for each in found.live}

        self._administer("the external cluster does not answer", look)

    def create_topics(self) -> None:
        """Make the plan's topics, and wait until every replica is in sync. Raises PlanError for
        one that is there already, DeployError.
        """
        wanted = self._plan.topics

        async def make(admin: AdminClient) -> None:
            await _refuse_taken(admin, self._plan)
            for topic in wanted:
                self._made.append(topic.name)
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
                    exist_ok=True,  # made by a request whose answer was lost
                )
            await startup.await_in_sync(admin, wanted, self.brokers)

        self._administer("the topics cannot be made", make)

    def stop(self) -> list[int]:
        """Not ours to stop."""
        return []

    def collect(
        self, cluster: RowStream, quorum_times: QuorumTimes, *, but: Collection[int] = ()
    ) -> None:
        """There are no files to read: tables without rows, which is not the same as none."""
        for table in ("replicas", "replica_ends"):
            self._run.write_table(table, ())

    def withdraw(self) -> list[str]:
        """Delete the topics that were made; returns those that could not be, and why."""

        async def delete(admin: AdminClient) -> None:
            await topics.delete(admin, self._made)

        if not self._made:
            return []
        try:
            self._administer("", delete)
        except DeployError as error:
            return [f"topics {', '.join(self._made)} may be left on the cluster{error}"]
        return []

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine to its end on the clients' machine."""
        return call_in_client_network(self._target, work)

    def output(self, node: int) -> Path:
        """Not ours to read."""
        return Path("/dev/null")

    def _unsupported(self, *_: Any, **__: Any) -> NoReturn:
        raise Unsupported("the cluster is external: its members are not ours")

    start_broker = remove_node = directory_id = wipe = _unsupported

    def _administer(self, failure: str, work: Callable[[AdminClient], Awaitable[None]]) -> None:
        """Do `work` within a bound. Raises DeployError that begins with `failure`."""

        async def working() -> None:
            async with _admin(self._plan, READY_S) as admin:
                await work(admin)

        try:
            self.call(working)
        except AdminError as error:
            raise DeployError(f"{failure}: {error}") from error
