"""Asks a settled cluster what its plan asks (`failover_at_end`, `administration_at_end`)."""

from collections.abc import Callable
from functools import partial
from typing import Final

from harness.plans.plan import Plan
from harness.simulation.at_rest.administration import check_administration
from harness.simulation.at_rest.failover import LEAST_VOTERS, check_failover
from harness.simulation.liveness import is_at_rest
from harness.simulation.recording import Recording
from harness.simulation.system import SimSystem
from harness.simulation.world.cluster import SimCluster
from harness.simulation.world.synchronous import GreenletRunner
from harness.systems.monitoring.watcher import Watcher

SESSION: Final = "broker.session.timeout.ms"
DEFAULT_SESSION_MS: Final = 9_000


def is_asked(plan: Plan) -> bool:
    """Whether the plan asks anything."""
    return plan.simulated.failover_at_end or plan.simulated.administration_at_end


def check_at_rest(
    recording: Recording,
    cluster: SimCluster,
    system: SimSystem,
    watcher: Watcher,
    task_runner: GreenletRunner,
    *,
    settle: Callable[[], None],
) -> None:
    """Ask, and `settle` after each change. Raises InvariantBroken. A cluster that is not at rest is
    not asked.
    """
    plan = recording.prepared.plan
    voters = watcher.voters() or ()
    if plan.simulated.failover_at_end and len(voters) >= LEAST_VOTERS and is_at_rest(recording):
        check_failover(
            cluster,
            watcher.view,
            task_runner,
            session_s=int(plan.broker.get(SESSION, DEFAULT_SESSION_MS)) / 1000,
            rng=cluster.world.stream("at rest", "failover"),
        )
        settle()
    if plan.simulated.administration_at_end and len(system.brokers) > 1 and is_at_rest(recording):
        task_runner.call(partial(check_administration, system.brokers))
        settle()
