"""The producer epochs that clients left, and why they could: see `causes.producer_epochs`."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

from checkers.causes.cause import SLACK_NS
from checkers.causes.producer_epochs import EpochBump, Reason, attribute, read_bumps
from checkers.engines.engine import Frame, left_join
from checkers.frames.unknown_producers import Run, overtaking
from checkers.history.history import TP


class EpochBumps:
    """The epoch bumps of one run; each part is computed once, at its first use, and costs nothing
    in a run without such rows."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._engine = run.engine

    @cached_property
    def _recorded(self) -> tuple[EpochBump, ...]:
        """Every epoch bump, and whether the refusing partitions had lost records."""
        found = read_bumps(self._engine, self._run.rare_rows)
        return tuple(_with_reasons(bump, self._with_losses) for bump in found)

    @cached_property
    def overtaking(self) -> Frame | None:
        """The sends that may have been accepted before a refused batch: see
        `unknown_producers.overtaking`. number: index into `all`."""
        return overtaking(self._run, self._recorded)

    @cached_property
    def all(self) -> tuple[EpochBump, ...]:
        """Every time that a client left its producer epoch, in the order of time."""
        if self.overtaking is None:
            return self._recorded
        rows = self._engine.rows(self.overtaking.select("number", *TP).distinct())
        overtaken = {(row["number"], row["topic"], row["partition"]) for row in rows}

        def told(number: int) -> Callable[[EpochBump, Reason], Reason]:
            return lambda _, reason: replace(
                reason,
                overtaken=reason.refused_head
                and (number, reason.topic, reason.partition) in overtaken,
            )

        return tuple(
            _with_reasons(bump, told(number)) for number, bump in enumerate(self._recorded)
        )

    def attributed(self, evidence: Frame) -> Frame:
        """Fill `cause_id` and `aspect` of writes that were in flight when their client left its
        producer epoch. evidence: see `producer_epochs.attribute`."""
        if not self.all:
            return evidence
        known = attribute(self._engine, self.all, evidence, self.overtaking)
        return left_join(evidence, known, on=["op", *TP, "value"])

    def _with_losses(self, bump: EpochBump, reason: Reason) -> Reason:
        return replace(reason, lost_records=self._lost_committed(bump, reason))

    def _lost_committed(self, bump: EpochBump, reason: Reason) -> bool:
        place, at_ns = (reason.topic, reason.partition), bump.began_ns
        if reason.topic is None or reason.partition is None:
            return False
        settings = self._run.settings(reason.topic, 0, at_ns)
        return any(
            cause.took_committed(settings)
            for cause in self._run.causes.causes
            if (cause.topic, cause.partition) == place
            and cause.elected_ns is not None
            and cause.elected_ns - SLACK_NS <= at_ns  # the election was recorded when it was seen
        )


def _with_reasons(bump: EpochBump, told: Callable[[EpochBump, Reason], Reason]) -> EpochBump:
    return replace(bump, reasons=tuple(told(bump, reason) for reason in bump.reasons))
