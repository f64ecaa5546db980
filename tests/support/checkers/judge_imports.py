"""Imports without a disk: judged as a run directory of theirs would be."""

from collections import Counter
from collections.abc import Mapping

from checkers.check import check
from checkers.contract.contract import Judgement
from checkers.history.history import HISTORY, RunSources, table
from checkers.interchange.imported import Imported
from checkers.verdict import Verdict

NAMES = ("group", "transactional_id")
"""Columns of names that two imports may share."""

Found = dict[tuple[str, str | None], tuple[str, int]]


def sources(imported: Imported) -> RunSources:
    """The tables of an import."""
    return RunSources(
        history=(imported.table(),),
        cluster=(),
        faults=(),
        replicas=(),
        replica_ends=(),
    )


def judged(imported: Imported) -> Verdict:
    """The verdict."""
    return check(sources(imported), imported.plan)


def together(imports: Mapping[str, Imported]) -> Imported:
    """Imports of topics of their own as one: judging many takes no longer than judging one."""
    history, topics = [], []
    for number, imported in enumerate(imports.values(), 1):
        # Numbers of one import's own: values as clients that nobody else is.
        shift = {"op": number << 40, "client": number << 10, "txn": number << 40}
        shift["value"] = shift["copies"] = number << 50
        for row in imported.table().to_pylist():
            moved = {
                name: row[name] + by for name, by in shift.items() if row.get(name) is not None
            }
            names = {name: f"{number}-{row[name]}" for name in NAMES if row.get(name) is not None}
            history.append({**row, **moved, **names})
        topics += imported.plan["topics"]
    plan = {"topics": topics, "system": "imported", "workload": {"consumers": 1}}
    return Imported(batches=table(HISTORY, history).to_batches, plan=plan)


def judged_together(imports: Mapping[str, Imported]) -> Verdict:
    """One verdict for all of them."""
    return judged(together(imports))


def found(verdict: Verdict, topic: str | None = None) -> Found:
    """{(kind, aspect): (judgement, count)} of a topic, or of all, without what is only told."""
    counts: Counter[tuple[str, str | None, str]] = Counter()
    for each in verdict.anomalies:
        if each.judgement is not Judgement.INFORMATIONAL and topic in (None, each.topic):
            counts[each.kind, each.aspect, each.judgement.value] += each.count
    return {(kind, aspect): (how, count) for (kind, aspect, how), count in counts.items()}
