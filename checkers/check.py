"""Judge a run: assumptions, then every detector, then the contract. This is the one entry point.

`check` reads the files of a run and returns a Verdict; it writes nothing. An error in a detector
makes the verdict UNKNOWN, with the reason. Only a directory that is not a run, or files that do not
fit, raise (HistoryError).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from checkers import expectations
from checkers.causes import programs
from checkers.causes.cause import SLACK_NS, Cause, CauseKind
from checkers.causes.coordinators import partition_of
from checkers.completeness.assumptions import examine
from checkers.contract.conditions import ACKNOWLEDGED, ANSWERED_AT_ONCE, BELOW_COMMIT, FINAL
from checkers.contract.contract import SENT_TWICE, Judgement, in_force, judge
from checkers.contract.processing_rules import DELIVERED, KEPT_WITH_OFFSETS
from checkers.contract.transaction_rules import HANGING
from checkers.detectors.delays import DELAYED, with_delays
from checkers.detectors.detector import Detector
from checkers.detectors.invariants import broken_invariants
from checkers.detectors.outputs import KINDS as OUTPUT_KINDS
from checkers.detectors.outputs import LATE, LOST
from checkers.detectors.registry import DETECTORS, OF_OTHERS, RULES
from checkers.engines.engine import DuckDbEngine, Engine, Frame, left_join
from checkers.frames.census import Census, take_census
from checkers.frames.evidence import EVIDENCE
from checkers.frames.frames import Frames
from checkers.frames.log_starts import PREFIX
from checkers.history.history import RunSources, load_plan, load_run
from checkers.history.plan_file import planned_partitions
from checkers.history.settings import (
    FOREVER_NS,
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    Settings,
    of_group,
)
from checkers.losses import LOSSES, MISSING_KEY, REVERTED_KEY
from checkers.program_losses import permitted_loss
from checkers.promises import promise_statistics
from checkers.topics import topic_statistics
from checkers.verdict import Anomaly, Assumption, DetectorResult, Status, Verdict

EXAMPLES = 20
"""Rows of evidence kept for an anomaly that is forbidden or undecided."""

FEW_EXAMPLES = 5
"""Rows of evidence kept for any other anomaly."""

DETECTOR_TIMEOUT_S = 600.0
"""The time limit of one step, for a history without rows."""

ROW_S = 20e-6
"""The addition to the time limit for each row of the history."""

KEPT_IN = {**dict.fromkeys(KEPT_WITH_OFFSETS, OFFSETS_TOPIC), HANGING: TRANSACTIONS_TOPIC}
"""The kinds that are judged by the settings of an internal topic."""

GROUP = ["kind", "aspect", "topic", "partition", "acks", "cause_id", "group", DELAYED]

T = TypeVar("T")

OnDetector = Callable[[str, int, int], None]
"""Told before each detector: its name, its number from 1, the number of detectors."""


def unobserved(_name: str, _number: int, _of: int) -> None:
    """Tell nobody."""


def check(
    run: Path | RunSources,
    plan: Mapping[str, Any] | None = None,
    engine: Engine | None = None,
    *,
    detector_timeout_s: float = DETECTOR_TIMEOUT_S,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    on_detector: OnDetector = unobserved,
) -> Verdict:
    """Judge a run directory, or sources already found, by its plan (default: its plan.json).

    engine: default the embedded one, made and closed here. Raises HistoryError when `run` is not a
    run, or its files do not fit their schemas.
    """
    if isinstance(run, RunSources):
        sources, plan = run, plan or {}
    else:
        sources = load_run(run)
        plan = plan if plan is not None else load_plan(run)
    if engine is not None:
        return judge_frames(Frames(engine, sources, plan), detector_timeout_s, now, on_detector)
    own = DuckDbEngine()
    try:
        return judge_frames(Frames(own, sources, plan), detector_timeout_s, now, on_detector)
    finally:
        own.close()


def unreadable(
    reason: str,
    plan: Mapping[str, Any],
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Verdict:
    """Return the verdict on a run whose files do not fit: UNKNOWN, for this reason."""
    return Verdict(
        assumptions=(),
        detectors=(),
        topics=(),
        contract=tuple(rule.as_json() for rule in RULES),
        engine="",
        checked_at=now().isoformat(timespec="milliseconds"),
        extra_reasons=(f"the recorded tables cannot be read: {reason}",),
        expect=expectations.of_plan(plan),
    )


def judge_frames(
    frames: Frames,
    timeout_s: float = DETECTOR_TIMEOUT_S,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    on_detector: OnDetector = unobserved,
) -> Verdict:
    """`check` for frames that the caller goes on using."""
    troubles = list(OF_OTHERS.problems)

    def attempt(what: str, compute: Callable[[], T], otherwise: T) -> T:
        try:
            with frames.engine.bounded(timeout_s):
                return compute()
        except Exception as error:
            troubles.append(f"{what} failed: {_brief(error)}")
            return otherwise

    rows = attempt("counting the history's rows", lambda: frames.count(frames.history), 0)
    timeout_s += rows * ROW_S
    census = attempt("counting the history", lambda: take_census(frames), None)
    assumptions: list[Assumption] = []
    results = [*broken_invariants(frames.sources.run_file)]
    if census is not None:
        taken = census
        assumptions = attempt("examining assumptions", lambda: examine(frames, taken), assumptions)
        settled = all(a.holds for a in assumptions if a.name == "the cluster settled")
        for number, detector in enumerate(DETECTORS, 1):
            on_detector(detector.name, number, len(DETECTORS))
            results.append(_detect(detector, frames, taken, settled=settled, timeout_s=timeout_s))
    anomalies = [anomaly for result in results for anomaly in result.anomalies]
    none: list[dict[str, Any]] = []
    topics = attempt("computing statistics", lambda: topic_statistics(frames, anomalies), none)
    promises = attempt("counting promises", lambda: promise_statistics(frames, anomalies), none)
    return Verdict(
        assumptions=tuple(assumptions),
        detectors=tuple(results),
        topics=tuple(topics),
        promises=tuple(promises),
        contract=tuple(rule.as_json() for rule in RULES),
        engine=frames.engine.name,
        checked_at=now().isoformat(timespec="milliseconds"),
        extra_reasons=tuple(troubles),
        expect=expectations.of_plan(frames.plan),
    )


def _detect(
    detector: Detector, frames: Frames, census: Census, *, settled: bool, timeout_s: float
) -> DetectorResult:
    started = time.perf_counter()
    anomalies: tuple[Anomaly, ...] = ()
    status, decisive = Status.OK, detector.decisive(frames.plan)
    detail = detector.lacking(census) or ""
    if detail:
        status = Status.NOTHING_TO_JUDGE
    else:
        try:
            with frames.engine.bounded(timeout_s):
                anomalies = tuple(
                    anomaly
                    for found in detector.find(frames)
                    for anomaly in judged(frames, found, settled=settled)
                )
        except Exception as error:
            status, detail, decisive = Status.CRASHED, _brief(error), True
    return DetectorResult(
        name=detector.name,
        status=status,
        seconds=time.perf_counter() - started,
        detail=detail,
        decisive=decisive,
        anomalies=anomalies,
    )


def judged(frames: Frames, found: Frame, *, settled: bool) -> tuple[Anomaly, ...]:
    """Return the anomalies in a frame of evidence: the contract judges each group of equal rows.

    settled: whether the cluster had settled when the final reads began.
    """
    F = frames.engine.functions
    found = with_delays(frames, frames.engine.materialize(_mark_sent_twice(frames, found)))
    # Only of these is it known when they can have begun: see `leadership.two_leaders`.
    leaders = F.when(F.col("kind") == F.lit("two-leaders"), F.col("complete_ns"))
    by_group = found.groupBy(*GROUP)
    counts = frames.engine.rows(
        by_group.agg(F.count(F.lit(1)).alias("count"), F.min(leaders).alias("first_end_ns"))
    )
    if not counts:
        return ()
    keys = ("invoke_ns", "op", "offset", "value", "other_op", "other_offset", "node")
    order = frames.engine.window.partitionBy(*GROUP).orderBy(*keys)
    # Both engines turn a rank filter into a bounded top-n, whatever the size of the group.
    ranked = found.withColumn("rank", F.row_number().over(order))
    examples: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in sorted(
        frames.engine.rows(ranked.where(F.col("rank") <= F.lit(EXAMPLES))),
        key=lambda row: int(row["rank"]),
    ):
        shown = {
            name: row[name] for name in EVIDENCE if row[name] is not None and name not in GROUP
        }
        examples.setdefault(_key(row), []).append(shown)
    groups = sorted(counts, key=lambda row: tuple((v is not None, v) for v in _key(row)))
    return tuple(
        _anomaly(frames, row, examples.get(_key(row), []), settled=settled) for row in groups
    )


def _mark_sent_twice(frames: Frames, found: Frame) -> Frame:
    """Set the aspect SENT_TWICE in rows that depend on a value which the workload sent twice."""
    twice = frames.sent_twice
    if twice is None:
        return found
    F = frames.engine.functions
    for name in ("value", "other_value"):
        marks = twice.select(F.col("value").alias(name), F.lit(SENT_TWICE).alias("mark"))
        marked = left_join(frames.engine.materialize(found), marks, on=[name])
        aspect = F.coalesce(F.col("mark"), F.col("aspect"))
        found = marked.withColumn("aspect", aspect).select(*EVIDENCE)
    return found


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in GROUP)


def _anomaly(
    frames: Frames, group: Mapping[str, Any], examples: Sequence[dict[str, Any]], *, settled: bool
) -> Anomaly:
    kind, topic, partition = group["kind"], group["topic"], group["partition"]
    cause_id = group["cause_id"]
    cause = text = None
    kept = _kept_in(frames, group)
    unread = _unread(frames, kind, group["aspect"], kept, cause_id)
    if cause_id is not None and kind == "duplicate":
        text = frames.epoch_bumps.all[cause_id].text
    elif cause_id is not None:
        explanation = frames.explanations[cause_id]
        cause, text = explanation.judged, explanation.text
        if cause.topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC) or kind == HANGING:
            kept = cause.topic, cause.partition
    start = frames.log_starts.get((topic, partition)) if group["aspect"] == PREFIX else None
    whole_run = frames.settings(topic)
    removal = None if start is None else start.removal(whole_run)
    if start is not None and removal is not None and not removal.too_early:
        text = start.text(whole_run)
    settings = _settings(frames, kind, kept[0], cause, examples)
    settings = of_group(settings, frames.plan, group["group"])
    beneath = permitted_loss(frames) if kind in OUTPUT_KINDS else None
    context = replace(
        in_force(settings),
        acks=settings.acks if group["acks"] is None else group["acks"],
        aspect=group["aspect"],
        cause=cause,
        cause_recorded=not unread,
        state_lost=frames.state_losses.certain(*kept),
        state_loss_uncertain=frames.state_losses.possible(*kept),
        quorum_lost=frames.state_losses.quorum_before(group["first_end_ns"]),
        zookeeper_lost=frames.sources.run_file.zookeeper_lost_or_discarded,
        settled=settled,
        removal=removal,
        requests_delayed=bool(group[DELAYED]),
        needed_lost=beneath is not None,
    )
    rule = judge(kind, context, RULES)
    grave = rule.judgement in (Judgement.FORBIDDEN, Judgement.UNKNOWN)
    if kind in LOSSES and text is None and rule.judgement is Judgement.PERMITTED:
        text = f"no cause in the record; {rule.reason}"
    if kind in OUTPUT_KINDS:
        text = _of_program(frames, kind, examples, beneath if grave else None)
    if kind == "contradicted-evidence":
        text = examples[0]["detail"]
    contradicted = grave and bool(_contradicted(frames, (topic, partition)))
    if unread and (contradicted or rule.judgement is Judgement.UNKNOWN):
        text = unread + (f"; {text}" if text else "")
    return Anomaly(
        kind=kind,
        topic=topic,
        partition=partition,
        acks=context.acks,
        judgement=rule.judgement,
        count=int(group["count"]),
        rule=rule.text,
        aspect=group["aspect"],
        cause=text,
        permission=rule.permission,
        group=group["group"],
        examples=tuple(examples[: EXAMPLES if grave else FEW_EXAMPLES]),
    )


def _kept_in(frames: Frames, group: Mapping[str, Any]) -> tuple[str | None, int | None]:
    """Return the partition that keeps what an anomaly is about. It may be one of an internal topic;
    its number is None if it is not known."""
    topic = KEPT_IN.get(group["kind"])
    if topic is None:
        return group["topic"], group["partition"]
    if group["group"] is None or not _of_coordinator(group["kind"], group["aspect"]):
        return topic, None
    return topic, partition_of(frames.causes, topic, group["group"])


def _of_program(
    frames: Frames, kind: str, examples: Sequence[Mapping[str, Any]], lost: Cause | None
) -> str | None:
    """Return what is told of an anomaly of the tested program: when the first was, near which
    fault, and what the cluster had lost."""
    moment = programs.Moment.SENT if kind in (LOST, LATE) else programs.Moment.WRITTEN
    told = programs.told(frames.fault_rows, examples[0], moment) if examples else ""
    return "; ".join(filter(None, (told, lost.text if lost is not None else ""))) or None


def _of_coordinator(kind: str, aspect: str | None) -> bool:
    """Whether only a coordinator that forgot something explains an anomaly."""
    return kind in KEPT_IN and (kind != DELIVERED or aspect == BELOW_COMMIT)


def _settings(
    frames: Frames,
    kind: str,
    topic: str | None,
    cause: Cause | None,
    examples: Sequence[Mapping[str, Any]],
) -> Settings:
    """Return the weakest settings between the first anomaly and the end of its cause; without a
    cause, until the end of the run. What was read had been written before. An election may have
    taken place before a deposed leader, which does not know, accepts what is lost."""
    first_ns = min((row["invoke_ns"] for row in examples if "invoke_ns" in row), default=0)
    over_ns = FOREVER_NS if cause is None else cause.near_until_ns
    internal = topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
    if internal and cause is None:
        first_ns = 0
    elif cause is not None and (internal or kind in (*_EXPLAINED_BY_TIME, HANGING)):
        # The loss is seen after its cause.
        first_ns = min(first_ns, cause.from_ns)
    elif cause is not None and frames.changes:
        decided_ns = first_ns
        if cause.kind is CauseKind.ELECTION and cause.elected_ns is not None:
            decided_ns = cause.elected_ns - SLACK_NS
        first_ns = min(first_ns, decided_ns, _written_ns(frames, cause, examples))
    return frames.settings(topic, first_ns, over_ns)


def _written_ns(frames: Frames, cause: Cause, examples: Sequence[Mapping[str, Any]]) -> int:
    """Return when the first of the values in examples was sent to the partition of the cause."""
    F = frames.engine.functions
    values = {row[name] for row in examples for name in ("value", "other_value") if name in row}
    sent = frames.sends.where(
        (F.col("topic") == F.lit(cause.topic))
        & (F.col("partition") == F.lit(cause.partition))
        & F.col("value").isin(*values)
    )
    first = frames.engine.rows(sent.agg(F.min("invoke_ns").alias("sent_ns"))) if values else []
    return next((row["sent_ns"] for row in first if row["sent_ns"] is not None), FOREVER_NS)


_EXPLAINED_BY_OFFSET = (
    *LOSSES, MISSING_KEY, REVERTED_KEY, "inconsistent-offset", "truncated-read",
    "torn-transaction",
)  # fmt: skip
_OF_PLACES = (("reordered-send", ACKNOWLEDGED), ("watermark-regression", FINAL))
_EXPLAINED_BY_TIME = ("watermark-regression", "uncommitted-read", "refused-head")
"""The kinds for which the contract asks for a cause."""
_OF_PRODUCERS = ("refused-head", "duplicate")
"""The kinds that only a loss of committed records, and of producer state with them, explains."""


def _unread(
    frames: Frames,
    kind: str,
    aspect: str | None,
    place: tuple[str | None, int | None],
    cause_id: int | None,
) -> str:
    """Return why the record could not have shown a cause; empty if it could, or if this kind of
    anomaly has no causes."""
    # The first access to `causes` computes them; most anomalies do not need any.
    if kind in _EXPLAINED_BY_OFFSET or (kind, aspect) in _OF_PLACES:
        if hidden := _hidden_by_snapshot(frames, [place]):
            return hidden
        if place in frames.causes.recorded:
            return ""
        if contradicted := _contradicted(frames, place):
            return contradicted
        why = frames.sources.run_file.why_epochs_unread(f"{place[0]}-{place[1]}")
        return f"the final leader epochs were not read: {why}"
    concerned: list[tuple[str | None, int | None]] = []
    at_once = aspect == ANSWERED_AT_ONCE
    if kind in _EXPLAINED_BY_TIME or at_once or _of_coordinator(kind, aspect):
        concerned = [place]
    elif kind == "duplicate" and cause_id is not None:
        concerned = [*frames.epoch_bumps.all[cause_id].unexcused]
    if kind in _OF_PRODUCERS and not at_once:
        concerned = [*filter(partial(_excusable, frames), concerned)]
    if concerned and frames.sources.run_file.cut_short:
        return "the leaders until the end are not recorded: the run ended before"
    for each in concerned:
        if not any(each in (led, (led[0], None)) for led in frames.causes.led):
            return _contradicted(frames, each) or "the leaders are not recorded"
    return _hidden_by_snapshot(frames, concerned)


def _contradicted(frames: Frames, place: tuple[str | None, int | None]) -> str:
    """Return what contradicts the leaders or the final leader epochs of a partition; empty if
    nothing does."""
    topic, partition = place
    if topic is None or partition is None:
        return ""
    if leader := frames.causes.contradicted.get((topic, partition)):
        return f"the leaders are contradicted: {leader}"
    found = frames.contradictions.get((topic, partition))
    return f"the final leader epochs are contradicted: {found[0].text}" if found else ""


def _hidden_by_snapshot(frames: Frames, places: Sequence[tuple[str | None, int | None]]) -> str:
    """Return why the metadata log does not show which replicas of a partition had all records when
    one of them lost its own; empty if none of them lost any, or if the log shows it."""
    start = frames.state_losses.metadata_start
    if not start or not any(frames.state_losses.certain(*place) for place in places):
        return ""
    return f"a snapshot replaced the metadata log below offset {start}, with what led to the loss"


def _excusable(frames: Frames, at: tuple[str | None, int | None]) -> bool:
    """Whether a partition of the plan may have lost committed records, as far as is known."""
    settings = in_force(frames.settings(at[0]))
    context = replace(settings, state_lost=frames.state_losses.certain(*at))
    return at in planned_partitions(frames.plan) and context.may_lose_committed


def _brief(error: Exception) -> str:
    # The first line of a Java error only names the failed call.
    cause = getattr(error, "java_exception", error)
    lines = str(cause).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:300]}"
