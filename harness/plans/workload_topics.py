"""Which workload of a plan uses which topic, and whether that makes sense."""

import itertools
from collections.abc import Sequence
from typing import Final

from checkers.history.plan_file import topics_of_producers
from checkers.history.settings import COMPACT, DELETE
from harness.plans.app_workload import AppWorkload
from harness.plans.plan import Plan, PlanError, Topic, acks_name
from harness.plans.problems import nearest
from harness.plans.workload_kind import WorkloadKind
from harness.plans.workloads import (
    CompactedWorkload,
    CopyWorkload,
    FurtherWorkload,
    GroupWorkload,
    TransactionWorkload,
)

MIN_SESSION: Final = "group.min.session.timeout.ms"
DEFAULT_MIN_SESSION_MS: Final = 6_000
ACKS_ALL: Final = -1
POLICY: Final = "cleanup.policy"


def of_producers(plan: Plan) -> tuple[Topic, ...]:
    """Return the topics with the producers and consumers of `plan.workload`, if it has any."""
    if not plan.workload.producers + plan.workload.consumers:
        return ()
    names = topics_of_producers(plan.to_json())
    return tuple(topic for topic in plan.topics if topic.name in names)


def of_transactions(plan: Plan, workload: TransactionWorkload) -> tuple[Topic, ...]:
    """Return the topics that a workload of transactions writes to."""
    chosen, others = workload.topics, {*_outputs(plan), *compacted(plan)}
    return tuple(t for t in plan.topics if (t.name in chosen if chosen else t.name not in others))


def compacted(plan: Plan) -> frozenset[str]:
    """Return the names of the topics whose keys a workload writes and deletes."""
    found = (each.topics for each in plan.more_workloads if isinstance(each, CompactedWorkload))
    return frozenset(itertools.chain(*found))


def of(plan: Plan, workload: FurtherWorkload) -> tuple[Topic, ...]:
    """Return the topics that a further workload uses."""
    if isinstance(workload, TransactionWorkload):
        return of_transactions(plan, workload)
    return tuple(topic for topic in plan.topics if topic.name in named(workload))


def transactional(plan: Plan) -> frozenset[str]:
    """Return the names of the topics that get records in transactions."""
    found: set[str] = set()
    for each in plan.more_workloads:
        if isinstance(each, TransactionWorkload):
            found |= {topic.name for topic in of_transactions(plan, each)}
        elif isinstance(each, CopyWorkload) and each.processing == "exactly-once":
            found.add(each.output)
    return frozenset(found)


def read_by_groups(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return the topics that each group of the plan's workloads reads."""
    return {
        each.group: each.read_topics
        for each in plan.more_workloads
        if isinstance(each, GroupWorkload | CopyWorkload)
    }


def written(plan: Plan) -> frozenset[str]:
    """Return the names of the topics that a workload writes to."""
    by_producers = {topic.name for topic in of_producers(plan)} if plan.workload.producers else ()
    others = (*_outputs(plan), *transactional(plan), *compacted(plan), *of_others(plan))
    return frozenset({*by_producers, *others})


def of_others(plan: Plan) -> frozenset[str]:
    """Return the names of the topics that workloads of kinds of other packages write to."""
    found = (each.topics for each in plan.more_workloads if isinstance(each, WorkloadKind))
    return frozenset(name for names in found for name in names)


def check(plan: Plan, where: str) -> None:
    """Check the topics and groups of all workloads. Raises a PlanError that starts with `where`."""
    _check_names(plan, where)
    further = plan.more_workloads
    groups = [
        each.group
        for each in further
        if isinstance(each, GroupWorkload | CopyWorkload | AppWorkload)
    ]
    _check_apps(plan, where)
    _check_others(plan, where)
    if twice := sorted({group for group in groups if groups.count(group) > 1}):
        raise PlanError(
            f"{where}: two workloads have group {twice[0]}, and would commit each other's offsets; "
            "give each its own"
        )
    _check_outputs(plan, where)
    _check_sessions(plan, where)
    _check_acks(plan, where)
    _check_compacted(plan, where)
    _check_topics_each(plan, where)
    present = written(plan)
    if idle := [topic.name for topic in plan.topics if topic.name not in present]:
        raise PlanError(
            f"{where}: topic {idle[0]}: no workload writes to it; remove it, or add it to the "
            "topics of a workload"
        )


def _check_names(plan: Plan, where: str) -> None:
    names = [topic.name for topic in plan.topics]
    used = [("workload", name) for name in plan.workload.topics]
    for each in plan.more_workloads:
        used += [(f"workload {each.kind}", name) for name in named(each)]
    for what, name in used:
        if name not in names:
            raise PlanError(
                f"{where}: {what}: there is no topic {name}{nearest(name, names)} (topics: "
                f"{', '.join(names)})"
            )


def _check_outputs(plan: Plan, where: str) -> None:
    """Check that the copies have their output for themselves."""
    outputs, further = _outputs(plan), plan.more_workloads
    others = {topic.name for topic in of_producers(plan)}
    for each in further:
        if not isinstance(each, CopyWorkload):
            continue
        if each.output in {*each.read_topics, *others} or outputs.count(each.output) > 1:
            raise PlanError(
                f"{where}: workload copy: its output {each.output} is an input, or something "
                "else writes to it; give the copies a topic of their own"
            )


def programs(plan: Plan) -> list[AppWorkload]:
    """Return the programs that the plan tests."""
    return [each for each in plan.more_workloads if isinstance(each, AppWorkload)]


def image_of_program(plan: Plan) -> str | None:
    """Return the image of the program that the plan tests, if it runs in containers."""
    return next((each.image for each in programs(plan)), None)


def _check_apps(plan: Plan, where: str) -> None:
    """Check that there is one program, that producers feed it, and that its values are text."""
    apps = programs(plan)
    if not apps:
        if plan.workload.payload == "text" and plan.workload.client != "librdkafka":
            raise PlanError(_only_librdkafka(where))
        return
    app = apps[0]
    if len(apps) > 1:
        raise PlanError(f"{where}: workload app: a run tests one program, not {len(apps)}")
    if plan.target == "sim":
        raise PlanError(
            f"{where}: workload app: a simulated cluster runs no program; choose another target"
        )
    fed = {topic.name for topic in of_producers(plan)} if plan.workload.producers else set()
    if app.input not in fed or plan.workload.payload != "text":
        raise PlanError(
            f"{where}: workload app: its input {app.input} has no producers of text; add a "
            'workload of kind produce with payload = "text"'
        )
    if plan.workload.client != "librdkafka":
        raise PlanError(_only_librdkafka(where))
    if app.sink.topic in {topic.name for topic in plan.topics}:
        raise PlanError(
            f"{where}: workload app: its output {app.sink.topic} is a topic of the plan; leave it "
            "out there, because the program's output topic is made with the program"
        )


def _check_others(plan: Plan, where: str) -> None:
    """Check the workloads whose kinds other packages declare."""
    topics = {topic.name: topic for topic in plan.topics}
    for each in plan.more_workloads:
        if not isinstance(each, WorkloadKind):
            continue
        if plan.target == "sim":
            raise PlanError(
                f"{where}: workload {each.kind}: it is of another package, and its clients are "
                "real processes, which a simulated cluster cannot run; choose another target"
            )
        if clash := sorted(set(each.topics) & set(_outputs(plan))):
            raise PlanError(
                f"{where}: workload {each.kind}: it writes to {clash[0]}, which is the output of "
                "copies; give it another topic"
            )
        for name in each.topics:
            if "compact" in topics[name].configs.get("cleanup.policy", ""):
                raise PlanError(
                    f"{where}: workload {each.kind}: topic {name} is compacted, and its records "
                    "would look lost; remove cleanup.policy"
                )


def _only_librdkafka(where: str) -> str:
    return f'{where}: workload: payload = "text" needs client librdkafka'


def _check_sessions(plan: Plan, where: str) -> None:
    """Check that brokers accept the session timeouts of members."""
    least_ms = int(str(plan.broker.get(MIN_SESSION, DEFAULT_MIN_SESSION_MS)))
    for each in plan.more_workloads:
        if not isinstance(each, GroupWorkload | CopyWorkload) or each.protocol != "classic":
            continue
        if each.session_timeout_ms < least_ms and plan.system != "external":
            raise PlanError(
                f"{where}: workload {each.kind}: brokers refuse session_timeout_ms "
                f"{each.session_timeout_ms}, which is below {MIN_SESSION} {least_ms}; raise it, or "
                f"set {MIN_SESSION} in [broker]"
            )


def _check_acks(plan: Plan, where: str) -> None:
    """Check the acks of topics with transactions or copies, which wait for all replicas."""
    names = transactional(plan) | set(_outputs(plan))
    for topic in plan.topics:
        if topic.name in names and topic.acks != ACKS_ALL:
            raise PlanError(
                f"{where}: topic {topic.name}: transactions and copies are written with acks = "
                f'"all", not {acks_name(topic.acks)}; set it so'
            )


def _check_topics_each(plan: Plan, where: str) -> None:
    """Check that transactions have as many topics as each of them writes to."""
    for each in plan.more_workloads:
        if isinstance(each, TransactionWorkload):
            names = [topic.name for topic in of_transactions(plan, each)]
            if each.topics_each > len(names):
                raise PlanError(
                    f"{where}: workload transactions: topics_each is {each.topics_each}, and the "
                    f"workload has {len(names)} topics: {', '.join(names)}"
                )


def _check_compacted(plan: Plan, where: str) -> None:
    """Check that compacted topics are compacted, have acks, and are used by one workload."""
    names = compacted(plan)
    used = [topic.name for topic in of_producers(plan)] if plan.workload.producers else []
    for each in plan.more_workloads:
        used += [topic.name for topic in of(plan, each)]
    for topic in plan.topics:
        if topic.name not in names:
            continue
        policy = topic.configs.get(POLICY, plan.broker.get(f"log.{POLICY}", DELETE))
        if policy != COMPACT:
            raise PlanError(
                f"{where}: workload compacted: topic {topic.name} has {POLICY} {policy}; set "
                f'configs = {{"{POLICY}" = "{COMPACT}"}} in its table, which keeps each last value'
            )
        if topic.acks == 0:
            raise PlanError(
                f"{where}: workload compacted: topic {topic.name} has acks = 0, so no write of it "
                'is known to be there; set acks = "all" or 1'
            )
        if used.count(topic.name) > 1:
            raise PlanError(
                f"{where}: workload compacted: another workload uses topic {topic.name}, too; "
                "give the compacted workload a topic of its own"
            )


def _outputs(plan: Plan) -> Sequence[str]:
    return [each.output for each in plan.more_workloads if isinstance(each, CopyWorkload)]


def named(workload: FurtherWorkload) -> Sequence[str]:
    """Return the names of the topics that a workload reads or writes."""
    match workload:
        case GroupWorkload():
            return workload.read_topics
        case CopyWorkload():
            return (*workload.read_topics, workload.output)
        case AppWorkload():
            return (workload.input,)
        case TransactionWorkload() | CompactedWorkload():
            return workload.topics
        case WorkloadKind():
            return tuple(dict.fromkeys((*workload.topics, *workload.reads())))
