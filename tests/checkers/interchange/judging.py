"""Imports without a disk: judged as a run directory of theirs would be."""

from collections import Counter

from checkers.check import check
from checkers.contract import Judgement
from checkers.history import SCHEMAS, RunSources, table
from checkers.interchange.imported import Imported
from checkers.verdict import Verdict

Found = dict[tuple[str, str | None], tuple[str, int]]


def sources(imported: Imported) -> RunSources:
    """The tables of an import."""
    rows = {"history": imported.history, "cluster": imported.cluster}
    return RunSources(
        **{name: (table(schema, rows.get(name, ())),) for name, schema in SCHEMAS.items()}
    )


def judged(imported: Imported) -> Verdict:
    """The verdict."""
    return check(sources(imported), imported.plan)


def found(verdict: Verdict) -> Found:
    """{(kind, aspect): (judgement, count)} without what is only told."""
    counts: Counter[tuple[str, str | None, str]] = Counter()
    for each in verdict.anomalies:
        if each.judgement is not Judgement.INFORMATIONAL:
            counts[each.kind, each.aspect, each.judgement.value] += each.count
    return {(kind, aspect): (how, count) for (kind, aspect, how), count in counts.items()}
