"""Prepares a plan for a run: checks the plan as a whole, and fixes the schedule of faults.

Nothing is started here. A mistake is a PlanError of one paragraph: what, where, and what to do
about it. The caller says which abilities the target lacks, see `harness.targets.abilities`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from checkers import expectations
from checkers.contract.risks import Risk, risks
from harness.brokers.modules import module_exists
from harness.plans import workload_topics
from harness.plans.plan import FaultMix, Nemesis, Plan, PlanError, acks_name
from harness.run import zookeeper_targets
from nemesis import conditions, selectors
from nemesis.base import BadSchedule, BadSelector, NemesisError
from nemesis.faults.catalogue import find
from nemesis.faults.fault import Ability, Params
from nemesis.generator import Mix, Tuning, expand, generate
from nemesis.hosts import CLIENTS, FIRST_ZOOKEEPER
from nemesis.schedule import Schedule, checked, scripted

EXTERNAL_NOTE: Final = (
    "the cluster is external: its brokers' files are not read, so it stays unknown whether its "
    "replicas agree; only the observations of clients are judged"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A plan that can be run, with its schedule."""

    plan: Plan
    schedule: Schedule
    notes: tuple[str, ...] = ()
    """Faults that were left out and why, and other remarks."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Faults of the plan that cannot be injected, and why."""
    refusal: str | None = None
    """Why the plan must not be run; only with `refuse=False`, else that is an error."""
    lacks: Mapping[Ability, str] | None = None
    """The abilities that the target lacks, and why; None: unknown."""

    @property
    def risks(self) -> tuple[Risk, ...]:
        """What the plan's settings permit these faults to do to acknowledged writes."""
        events = self.schedule.events
        return risks(
            self.plan.to_json(),
            [(e.fault, Params.of(find(e.fault).options, e.params).values) for e in events],
        )


def faults_of(plan: Plan) -> list[str]:
    """Return the faults of a plan, each once. A pattern means the faults of programs only in a plan
    that tests one. Raises PlanError."""
    nemesis = plan.nemesis
    named = {*nemesis.faults, *nemesis.mix}
    try:
        mixed = [
            name
            for name in expand([*nemesis.faults, *nemesis.mix])
            if name in named or workload_topics.programs(plan) or not _is_of_programs(name)
        ]
        return list(dict.fromkeys([*mixed, *(find(event.fault).name for event in nemesis.events)]))
    except NemesisError as error:
        raise PlanError(f"plan {plan.name}: nemesis: {error}") from error


def prepare(
    plan: Plan,
    *,
    schedule: Schedule | None = None,
    lacks: Mapping[Ability, str] | None = None,
    refuse: bool = True,
) -> Prepared:
    """Check the plan as a whole and fix its schedule, or check the `schedule` that is replayed.

    `lacks` has the abilities that the target lacks, and why; None: unknown. Raises PlanError.
    Without `refuse`, faults that cannot be injected are no error but the `refusal` of the result.
    """
    where = f"plan {plan.name}"
    plan.resolved_broker()
    check_system(plan)
    check_configs(plan)
    _check_topics(plan, where)
    workload_topics.check(plan, where)
    _check_expectations(plan, where)
    wanted = faults_of(plan) if schedule is None else [event.fault for event in schedule.events]
    try:
        missing = {name: why for name in wanted if (why := _missing(name, plan, lacks or {}))}
        leave_out = bool(missing) and plan.nemesis.mode == "auto" and schedule is None
        left_out = frozenset(missing) if leave_out else frozenset[str]()
        made = checked(schedule) if schedule is not None else _schedule(plan, left_out, where)
        _check_targets(plan, made, where)
    except NemesisError as error:
        raise PlanError(f"{where}: nemesis: {error}") from error
    refusal = None if leave_out or not missing else _refusal(plan, missing)
    if refusal is not None and refuse:
        raise PlanError(refusal)
    notes = tuple(f"{name} was left out: {why}" for name, why in missing.items() if leave_out)
    notes = (*notes, *([EXTERNAL_NOTE] if plan.system == "external" else []))
    return Prepared(
        plan=plan, schedule=made, notes=notes, missing=missing, refusal=refusal, lacks=lacks
    )


def _missing(name: str, plan: Plan, lacks: Mapping[Ability, str]) -> str | None:
    """Return why the target cannot inject a fault, or None. Raises UnknownFault."""
    fault = find(name)
    if _is_of_programs(name) and not workload_topics.programs(plan):
        return "the plan tests no program (workload kind app)"
    if Ability.PROGRAM_CLOCKS in fault.needs and workload_topics.image_of_program(plan):
        return "the program runs in a container, whose wall clock is the machine's"
    if lacking := sorted(fault.needs & lacks.keys()):
        return "it lacks " + "; ".join(f"{ability} ({lacks[ability]})" for ability in lacking)
    if name.startswith("quorum.") and plan.control_plane == "zookeeper":
        return "the control plane is ZooKeeper, so there is no metadata quorum"
    if plan.nodes < fault.min_nodes:
        return f"the fault needs {fault.min_nodes} nodes and there are {plan.nodes}"
    return None


def _is_of_programs(name: str) -> bool:
    return Ability.PROGRAM_SIGNALS in find(name).needs


def _refusal(plan: Plan, missing: Mapping[str, str]) -> str:
    name, why = next(iter(missing.items()))
    more = f" (and {len(missing) - 1} more faults)" if len(missing) > 1 else ""
    where = "system external" if plan.system == "external" else f"target {plan.target}"
    return (
        f"plan {plan.name}: {where} cannot inject {name}{more}: {why}; remove it from the "
        "plan, or leave it out with --nemesis auto; `highwater doctor` says what is missing"
    )


def _schedule(plan: Plan, left_out: frozenset[str], where: str) -> Schedule:
    nemesis, end_ms = plan.nemesis, round(plan.duration_s * 1000)
    if nemesis.events and (nemesis.faults or nemesis.mix):
        raise PlanError(
            f"{where}: nemesis has events and faults; keep the list of events or the random mix"
        )
    if nemesis.events:
        events = [event for event in nemesis.events if event.fault not in left_out]
        return scripted(events, seed=plan.seed, end_ms=end_ms)
    _check_ranges(nemesis, where)
    mix = _mix(plan, [name for name in faults_of(plan) if name not in left_out])
    return generate(mix, seed=plan.seed, end_ms=end_ms)


def _mix(plan: Plan, faults: Sequence[str]) -> Mix:
    nemesis = plan.nemesis
    quiet = nemesis.quiet
    return Mix(
        faults=faults,
        targets=nemesis.targets,
        interval_ms=nemesis.interval_ms,
        duration_ms=nemesis.duration_ms,
        rate_per_min=nemesis.rate_per_min,
        overlap=nemesis.overlap,
        burst=nemesis.burst,
        quiet_every_ms=None if quiet is None else quiet.every_ms,
        quiet_ms=0 if quiet is None else quiet.for_ms,
        majority=nemesis.majority,
        nodes=plan.nodes,
        tunings={
            name: Tuning(
                weight=mixed.weight,
                targets=mixed.targets,
                duration_ms=mixed.duration_ms,
                params=mixed.params,
            )
            for name, mixed in nemesis.mix.items()
        },
    )


# -- checks


def check_system(plan: Plan) -> None:
    """Check that the system, its address and the target go together. Raises PlanError."""
    where = f"plan {plan.name}"
    if (plan.system == "external") != (plan.external is not None):
        raise PlanError(
            f"{where}: system external and external.bootstrap_servers go together: give both (or "
            "--bootstrap-servers), or neither"
        )
    if plan.system == "external" and plan.target != "local":
        raise PlanError(
            f"{where}: target {plan.target} makes machines, but system external has its own, and "
            "its clients run on this machine: leave the target out"
        )
    _check_control_plane(plan, where)
    if plan.system == "nodes":
        if plan.broker_module != "nodes" and not module_exists(plan.broker_module):
            raise PlanError(
                f"{where}: there is no broker module {plan.broker_module}; name a module that "
                "`python -m` finds from this directory, or a broken broker of `highwater zoo "
                "--list`"
            )
        return
    if plan.target == "sim":
        raise PlanError(
            f"{where}: system {plan.system} cannot run in a simulated cluster; only the built-in "
            "broker can; run it with real processes: highwater run"
        )
    if plan.broker_module != "nodes":
        raise PlanError(
            f"{where}: broker_module {plan.broker_module} is for the built-in broker; leave it out "
            'or set system = "nodes"'
        )


def _check_control_plane(plan: Plan, where: str) -> None:
    if plan.control_plane == "quorum":
        return
    if plan.system == "external":
        raise PlanError(
            f"{where}: control_plane zookeeper is for clusters that highwater starts, and system "
            "external has a control plane of its own: leave control_plane out"
        )
    if plan.target == "sim":
        raise PlanError(
            f"{where}: ZooKeeper cannot run in a simulated cluster; run the plan with real "
            'processes (highwater run), or set control_plane = "quorum"'
        )
    if plan.target != "local":
        raise PlanError(
            f"{where}: ZooKeeper nodes run only on target local, not on target {plan.target}: "
            'leave the target out, or set control_plane = "quorum"'
        )


def check_configs(plan: Plan) -> None:
    """Check the configuration for the built-in broker. Raises PlanError.

    Other brokers refuse a wrong configuration by themselves.
    """
    if plan.system == "nodes" and (plan.broker or any(topic.configs for topic in plan.topics)):
        from harness.systems import built_in_configs  # importing the broker is slow

        built_in_configs.check(plan, f"plan {plan.name}")


def _check_topics(plan: Plan, where: str) -> None:
    names = [topic.name for topic in plan.topics]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise PlanError(f"{where}: topic {twice[0]} is there twice; give each its own name")
    for topic in plan.topics:
        here = f"{where}: topic {topic.name}"
        if plan.system != "external" and topic.replication_factor > plan.nodes:
            raise PlanError(
                f"{here}: replication_factor {topic.replication_factor} is more than the "
                f"{plan.nodes} nodes; lower it, or raise nodes"
            )
        if topic.min_insync_replicas > topic.replication_factor:
            raise PlanError(
                f"{here}: min_insync_replicas {topic.min_insync_replicas} is more than "
                f"replication_factor {topic.replication_factor}, so no acks=all send could ever "
                "be acknowledged; lower it"
            )
        if topic.idempotence and topic.acks != -1:
            raise PlanError(
                f'{here}: idempotence needs acks = "all", not {acks_name(topic.acks)}; '
                "change one of them"
            )


def _check_expectations(plan: Plan, where: str) -> None:
    modes = {topic.acks for topic in plan.topics}
    for text in plan.expect:
        acks = expectations.parse(text).acks
        if acks is not None and acks not in modes:
            has = ", ".join(f"acks={acks_name(each)}" for each in sorted(modes))
            raise PlanError(
                f"{where}: expect {text}: no topic of the plan has acks={acks_name(acks)}, only "
                f"{has}; remove it, or add such a topic"
            )


def _check_ranges(nemesis: Nemesis, where: str) -> None:
    """Check that ranges ascend, quiet periods leave time for faults, and parameters are known."""
    ranges = [
        ("interval_ms", nemesis.interval_ms),
        ("duration_ms", nemesis.duration_ms),
        ("burst", nemesis.burst),
    ]
    for name, mixed in nemesis.mix.items():
        _check_params(name, mixed)
        if mixed.duration_ms is not None:
            ranges.append((f"mix.{name}.duration_ms", mixed.duration_ms))
    for what, (low, high) in ranges:
        if low > high:
            raise PlanError(f"{where}: nemesis.{what}: the range {low}..{high} runs backwards")
        room_ms = nemesis.quiet.every_ms if nemesis.quiet is not None else low
        if what.endswith("duration_ms") and low > room_ms:
            raise PlanError(
                f"{where}: nemesis.quiet.every_ms {room_ms} leaves no time for a fault of at least "
                f"{low} ms; raise it, or lower nemesis.{what}"
            )


def _check_params(name: str, mixed: FaultMix) -> None:
    options = find(name).options
    for param, choice in mixed.params.items():
        given = [choice] if isinstance(choice, str) else [str(each) for each in choice]
        for value in given:
            try:
                Params.of(options, {param: value})
            except BadSchedule as error:
                raise BadSchedule(f"mix.{name}: {error}") from error


def _check_targets(plan: Plan, schedule: Schedule, where: str) -> None:
    for expression in (*plan.nemesis.targets, *_mix_targets(plan.nemesis)):
        selectors.parse(expression)
    for fault, expression in _possible_targets(plan):
        _check_zookeeper(plan, fault, selectors.parse(expression), (), f"{where}: nemesis")
    for event in schedule.events:
        here = f"{where}: nemesis: {event.place}"
        target = selectors.parse(event.targets)
        nodes, partitions = [*(event.nodes or ()), *target.nodes], list[tuple[str, int]]()
        _check_zookeeper(plan, event.fault, target, event.nodes or (), here)
        if target.kind == "minority" and plan.nodes < 3:
            raise PlanError(f"{here}: {plan.nodes} nodes have no minority; use the target `one`")
        if target.topic is not None:
            partitions.append((target.topic, target.partition))
        if event.until is not None:
            condition = conditions.parse(event.until)
            nodes += condition.nodes
            partitions += condition.partitions
        _check_nodes(plan, nodes, here)
        for topic, partition in partitions:
            _check_partition(plan, topic, partition, here)
        if event.until is not None:
            _check_replicas(plan, conditions.parse(event.until).replicas, here)


def _check_zookeeper(
    plan: Plan, fault: str, target: selectors.Selector, nodes: Iterable[int], here: str
) -> None:
    try:
        zookeeper_targets.check(find(fault), target, _servers(plan), nodes)
    except BadSelector as error:
        raise PlanError(f"{here}: {error}") from error


def _servers(plan: Plan) -> int:
    """Return the number of the plan's ZooKeeper nodes."""
    return plan.zookeepers if plan.control_plane == "zookeeper" else 0


def _check_nodes(plan: Plan, nodes: Iterable[int], here: str) -> None:
    for node in nodes:
        if node >= FIRST_ZOOKEEPER:
            continue  # checked with its fault
        if node != CLIENTS and not 1 <= node <= plan.nodes:
            raise PlanError(f"{here}: there is no node {node}, only 1 to {plan.nodes}")


def _check_replicas(plan: Plan, wanted: Iterable[tuple[str, int, int]], here: str) -> None:
    factors = {topic.name: topic.replication_factor for topic in plan.topics}
    for topic, partition, count in wanted:
        if count > factors[topic]:
            raise PlanError(
                f"{here}: it waits for {count} replicas of {topic}/{partition}, which has "
                f"replication_factor {factors[topic]}; lower one, or raise the other"
            )


def _possible_targets(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield each fault of a random mix with each selector that it may get."""
    nemesis = plan.nemesis
    for name in faults_of(plan) if nemesis.faults or nemesis.mix else ():
        mixed = nemesis.mix.get(name)
        general = nemesis.targets if find(name).selectable else ()
        for expression in (mixed.targets if mixed is not None else ()) or general:
            yield name, expression


def _mix_targets(nemesis: Nemesis) -> Iterator[str]:
    for mixed in nemesis.mix.values():
        yield from mixed.targets


def _check_partition(plan: Plan, topic: str, partition: int, here: str) -> None:
    partitions = {topic.name: topic.partitions for topic in plan.topics}
    if partition >= partitions.get(topic, 0):
        raise PlanError(
            f"{here}: there is no partition {topic}/{partition} in the plan; its topics "
            f"are {', '.join(f'{t} (0 to {n - 1})' for t, n in partitions.items())}"
        )
