"""A stored run: what was recorded, and what it means."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from highwater._errors import InvalidPlan, NotJudged, RunUnreadable, translated
from highwater._tables import Table
from highwater._verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow

    from checkers.history.history import RunSources, Source
    from harness.plans.plan import Plan
    from harness.recording.store import Run as StoredRun

FIELDS: Final = {"operations": "history"}
"""Table of the API -> table of a run directory, where they differ."""


def load(run: str | os.PathLike[str]) -> Run:
    """Return a stored run, for example `store/latest`. Raises RunUnreadable when it is none.

    Nothing but run.json is read at once. A run that still goes on shows what is recorded by now.

    Example:
        >>> run = highwater.load(RUN)
        >>> run.operations.columns[:3]
        ('op', 'client', 'f')
        >>> run.verdict.outcome
        'INVALID'
    """
    from harness.recording import store

    with translated():
        return Run(store.open_run(Path(run)))


class Run:
    """A stored run. `load` and `run` make it.

    Example:
        >>> run = highwater.load(RUN)
        >>> sorted(run.tables)
        ['anomalies', 'cluster', 'faults', 'operations', 'replica_ends', 'replicas']
    """

    def __init__(self, stored: StoredRun) -> None:
        self._stored = stored

    @property
    def path(self) -> Path:
        """The run directory.

        Example:
            >>> (highwater.load(RUN).path / "run.json").is_file()
            True
        """
        return self._stored.path

    @property
    def run_id(self) -> str:
        """The id of the run, unique everywhere.

        Example:
            >>> len(highwater.load(RUN).run_id)
            16
        """
        return self._stored.run_id

    @property
    def started(self) -> datetime:
        """When the run began, UTC.

        Example:
            >>> highwater.load(RUN).started.tzname()
            'UTC'
        """
        return datetime.fromtimestamp(self._stored.started_wall_ns / 1e9, tz=UTC)

    @property
    def plan(self) -> Plan:
        """The plan that was run. Raises InvalidPlan when this version cannot read it.

        Example:
            >>> highwater.load(SIMULATED).plan.name
            'acks-1-leader-cut-off'
        """
        from harness.plans.plan import stored_plan

        with translated():
            try:
                return stored_plan(self.path)
            except (OSError, ValueError) as error:
                raise InvalidPlan(f"{self.path}/plan.json cannot be read: {error}") from error

    @property
    def report(self) -> Path | None:
        """The page of the run; None if it was not written.

        Example:
            >>> highwater.load(SIMULATED).report.name
            'report.html'
        """
        path = self.path / "report.html"
        return path if path.is_file() else None

    @property
    def operations(self) -> Table:
        """What clients did: a row per operation and record.

        Example:
            >>> operations = highwater.load(RUN).operations.arrow()
            >>> "send" in operations["f"].to_pylist()
            True
        """
        return self._table("history")

    @property
    def faults(self) -> Table:
        """The faults, with the measured proofs of effect and healing.

        Example:
            >>> faults = highwater.load(SIMULATED).faults.pandas()
            >>> faults[["fault", "took_effect"]].values.tolist()
            [['partition.isolate-leader', True]]
        """
        return self._table("faults")

    @property
    def cluster(self) -> Table:
        """What the cluster said of itself: leaders, ISRs, truncations, fenced brokers.

        Example:
            >>> cluster = highwater.load(SIMULATED).cluster.pandas()
            >>> bool((cluster.kind == "leader").any())
            True
        """
        return self._table("cluster")

    @property
    def replicas(self) -> Table:
        """Every record batch in every replica's files after the run.

        Example:
            >>> highwater.load(RUN).replicas.columns[-2:]
            ('digest', 'size')
        """
        return self._table("replicas")

    @property
    def replica_ends(self) -> Table:
        """Where every replica's log ended.

        Example:
            >>> "high_watermark" in highwater.load(RUN).replica_ends.columns
            True
        """
        return self._table("replica_ends")

    @property
    def anomalies(self) -> Table:
        """The anomalies of the verdict, a row each. Reading it raises NotJudged without a verdict.

        Columns: kind, judgement, count, topic, partition, acks, group, aspect, cause, rule, values
        (of the examples, as `client:sequence`).

        Example:
            >>> anomalies = highwater.load(RUN).anomalies.pandas()
            >>> anomalies[anomalies.judgement == "forbidden"][["kind", "count"]].values.tolist()
            [['divergent-replicas', 1]]
        """
        return Table("anomalies", _anomaly_schema(), lambda: [self._anomalies()])

    @property
    def tables(self) -> Mapping[str, Table]:
        """Every table by its name.

        Example:
            >>> highwater.load(RUN).tables["faults"]
            <Table faults: 15 columns>
        """
        names = ("operations", "faults", "cluster", "replicas", "replica_ends", "anomalies")
        return {name: getattr(self, name) for name in names}

    @property
    def judged(self) -> bool:
        """Whether the run has a verdict.

        Example:
            >>> highwater.load(RUN).judged
            True
        """
        return (self.path / "verdict.json").is_file()

    @property
    def verdict(self) -> Verdict:
        """The stored verdict. Raises NotJudged; `highwater.check(run)` makes one.

        Example:
            >>> print(highwater.load(RUN).verdict.headline)
            CONTRACT BROKEN
        """
        path = self.path / "verdict.json"
        try:
            found = json.loads(path.read_text())
            return Verdict._of(found)
        except FileNotFoundError:
            raise NotJudged(
                f"{self.path}: is not judged yet; call highwater.check(run) first"
            ) from None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise RunUnreadable(
                f"{path}: is no verdict ({error!r}); highwater.check(run) makes a new one"
            ) from error

    def __repr__(self) -> str:
        return f"<Run {self.path}>"

    def _table(self, name: str) -> Table:
        from checkers.history.history import SCHEMAS

        shown = next((shown for shown, stored in FIELDS.items() if stored == name), name)
        return Table(shown, SCHEMAS[name], partial(self._sources_of, name))

    def _sources_of(self, name: str) -> Sequence[Source]:
        found: Sequence[Source] = getattr(self._recorded, name)
        return found

    @cached_property
    def _recorded(self) -> RunSources:
        from harness.judging import judge

        with translated():
            return judge.current_sources(self.path)

    def _anomalies(self) -> pyarrow.Table:
        import pyarrow as pa

        schema = _anomaly_schema()
        rows: list[dict[str, Any]] = [
            {**{name: getattr(each, name) for name in schema.names}, "values": list(each.values)}
            for each in self.verdict.anomalies
        ]
        return pa.Table.from_pylist(rows, schema=schema)


def _anomaly_schema() -> pyarrow.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("kind", pa.string(), nullable=False),
            pa.field("judgement", pa.string(), nullable=False),
            pa.field("count", pa.int64(), nullable=False),
            pa.field("topic", pa.string()),
            pa.field("partition", pa.int32()),
            pa.field("acks", pa.int8()),
            pa.field("group", pa.string()),
            pa.field("aspect", pa.string()),
            pa.field("cause", pa.string()),
            pa.field("rule", pa.string(), nullable=False),
            pa.field("values", pa.list_(pa.string())),
        ]
    )
