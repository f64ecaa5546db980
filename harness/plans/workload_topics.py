"""Which workload of a plan uses which topic, and whether that makes sense."""

from collections.abc import Sequence

from harness.plans.plan import Plan, PlanError, Topic
from harness.plans.problems import nearest
from harness.plans.workloads import (
    CopyWorkload,
    FurtherWorkload,
    GroupWorkload,
    TransactionWorkload,
)


def of_producers(plan: Plan) -> tuple[Topic, ...]:
    """Return the topics with the producers and consumers of `plan.workload`: those that it names,
    else all that no further workload names to write to."""
    work = plan.workload
    if not work.producers + work.consumers:
        return ()
    taken = {name for each in plan.more_workloads for name in _written_by_name(each)}
    return tuple(
        topic
        for topic in plan.topics
        if (topic.name in work.topics if work.topics else topic.name not in taken)
    )


def of_transactions(plan: Plan, workload: TransactionWorkload) -> tuple[Topic, ...]:
    """Return the topics that a workload of transactions writes to."""
    chosen, outputs = workload.topics, _outputs(plan)
    return tuple(t for t in plan.topics if (t.name in chosen if chosen else t.name not in outputs))


def transactional(plan: Plan) -> frozenset[str]:
    """Return the names of the topics that get records in transactions."""
    found: set[str] = set()
    for each in plan.more_workloads:
        if isinstance(each, TransactionWorkload):
            found |= {topic.name for topic in of_transactions(plan, each)}
        elif isinstance(each, CopyWorkload) and each.processing == "exactly-once":
            found.add(each.output)
    return frozenset(found)


def written(plan: Plan) -> frozenset[str]:
    """Return the names of the topics that a workload writes to."""
    by_producers = {topic.name for topic in of_producers(plan)} if plan.workload.producers else ()
    return frozenset({*by_producers, *_outputs(plan), *transactional(plan)})


def check(plan: Plan, where: str) -> None:
    """Check the topics and groups of all workloads. Raises a PlanError that starts with `where`."""
    _check_names(plan, where)
    further = plan.more_workloads
    groups = [each.group for each in further if not isinstance(each, TransactionWorkload)]
    if twice := sorted({group for group in groups if groups.count(group) > 1}):
        raise PlanError(
            f"{where}: two workloads have group {twice[0]}, and would commit each other's offsets; "
            "give each its own"
        )
    _check_outputs(plan, where)
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
        used += [(f"workload {each.kind}", name) for name in _named(each)]
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
    others |= {
        n for each in further if not isinstance(each, CopyWorkload) for n in _written_by_name(each)
    }
    for each in further:
        if not isinstance(each, CopyWorkload):
            continue
        if each.output == each.input or each.output in others or outputs.count(each.output) > 1:
            raise PlanError(
                f"{where}: workload copy: its output {each.output} is the input, or something "
                "else writes to it; give the copies a topic of their own"
            )


def _outputs(plan: Plan) -> Sequence[str]:
    return [each.output for each in plan.more_workloads if isinstance(each, CopyWorkload)]


def _named(workload: FurtherWorkload) -> Sequence[str]:
    match workload:
        case GroupWorkload():
            return (workload.topic,)
        case CopyWorkload():
            return (workload.input, workload.output)
        case TransactionWorkload():
            return workload.topics


def _written_by_name(workload: FurtherWorkload) -> Sequence[str]:
    match workload:
        case GroupWorkload():
            return ()
        case CopyWorkload():
            return (workload.output,)
        case TransactionWorkload():
            return workload.topics
