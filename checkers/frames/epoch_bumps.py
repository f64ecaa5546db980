"""The producer epochs that clients left, and why they could: see `causes.producer_epochs`."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from checkers.causes.cause import SLACK_NS, CauseKind
from checkers.causes.producer_epochs import EpochBump, Reason, attribute, read_bumps
from checkers.engines.engine import Frame, left_join
from checkers.frames.unknown_producers import Run, last_known_ns, overtaking
from checkers.history.history import TP
from checkers.history.settings import FOREVER_NS


class EpochBumps:
    """The epoch bumps of one run; each part is computed once, at its first use, and costs nothing
    in a run without such rows."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._engine = run.engine

    @cached_property
    def _recorded(self) -> tuple[EpochBump, ...]:
        """Every epoch bump, as the clients recorded it."""
        return read_bumps(self._engine, self._run.rare_rows)

    @cached_property
    def overtaking(self) -> Frame | None:
        """The sends that may have been accepted before a refused batch: see
        `unknown_producers.overtaking`. number: index into `all`."""
        return overtaking(self._run, self._recorded)

    @cached_property
    def all(self) -> tuple[EpochBump, ...]:
        """Every time that a client left its producer epoch, in the order of time."""
        overtaken = set()
        if self.overtaking is not None:
            rows = self._engine.rows(self.overtaking.select("number", *TP).distinct())
            overtaken = {(row["number"], row["topic"], row["partition"]) for row in rows}

        def explained(number: int, bump: EpochBump, reason: Reason) -> Reason:
            there = (number, reason.topic, reason.partition) in overtaken
            return replace(
                reason,
                lost_records=self._lost_records(number, bump, reason),
                overtaken=there and reason.refused_head,
            )

        return tuple(
            replace(bump, reasons=tuple(explained(number, bump, each) for each in bump.reasons))
            for number, bump in enumerate(self._recorded)
        )

    def attributed(self, evidence: Frame) -> Frame:
        """Fill `cause_id` and `aspect` of writes that were in flight when their client left its
        producer epoch. evidence: see `producer_epochs.attribute`."""
        if not self.all:
            return evidence
        known = attribute(self._engine, self.all, evidence, self.overtaking)
        return left_join(evidence, known, on=["op", *TP, "value"])

    def _lost_records(self, number: int, bump: EpochBump, reason: Reason) -> bool:
        """Whether the refusing partition had lost committed records before, with permission, and
        with them what its leader knew of the producer."""
        lost_ns = self._lost_ns(bump, reason)
        if lost_ns is None or not reason.refused_head:
            return lost_ns is not None
        known_ns = self._last_known_ns.get((number, reason.topic, reason.partition))
        return known_ns is None or known_ns <= lost_ns

    def _lost_ns(self, bump: EpochBump, reason: Reason) -> int | None:
        """Return until when the refusing partition may have lost committed records before; None if
        it lost none."""
        if reason.topic is None or reason.partition is None:
            return None
        settings = self._run.settings(reason.topic, 0, bump.began_ns)
        return max(
            (
                # Leaders may still be elected of whom nobody knows whether they have everything.
                FOREVER_NS if cause.kind is CauseKind.QUORUM_LOSS else cause.elected_ns + SLACK_NS
                for cause in self._run.causes.causes
                if (cause.topic, cause.partition) == (reason.topic, reason.partition)
                and cause.elected_ns is not None
                and cause.elected_ns - SLACK_NS <= bump.began_ns  # it is recorded when it is seen
                and cause.took_committed(settings)
            ),
            default=None,
        )

    @cached_property
    def _last_known_ns(self) -> Mapping[tuple[int, str | None, int | None], int]:
        return last_known_ns(self._run, self._recorded)
