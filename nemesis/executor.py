"""The nemesis: runs a schedule against hosts, and says what every fault really did.

It guarantees that each fault is in the journal, on disk, before it is made; that a fault counts as
effective only with a measured proof (packets dropped, a process gone or stopped); that everything
in force is healed at the end, on `stop`, and after any error; and that no error of one fault
reaches another or the caller: it is recorded with the fault. One thread, no globals; time comes
from the clock handed in.

Overlapping faults are kept apart: healing one leaves alone what another still holds.
"""

import contextlib
import json
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from nemesis import conditions
from nemesis.base import Clock, ClusterView, Futile, Journal, Unresolved
from nemesis.fault import Fault, Params, Strike
from nemesis.faults import find
from nemesis.hosts import Hosts
from nemesis.schedule import Event, Schedule
from nemesis.targets import resolve

TICK_S = 0.1
"""How often conditions are looked at and proofs are sought; the lateness of any action."""
RESOLVE_TIMEOUT_MS = 5_000
"""How long a target that names nobody (no leader known) is asked for again."""
HEAL_ATTEMPTS = 3
"""How often a heal is tried before the fault is recorded as not healed."""


@dataclass(slots=True, kw_only=True)
class FaultRecord:
    """What became of one event; the columns of the record of faults."""

    event: Event
    label: str
    because: str | None = None
    strike: Strike | None = None
    started_ns: int | None = None
    effective_ns: int | None = None
    healed_ns: int | None = None
    effect: str | None = None
    healing: str | None = None
    """The proof that the heal did what it should."""
    error: str | None = None

    def row(self) -> dict[str, object]:
        """The record as a row: times in ns since the run's start, `targets` as JSON."""
        targets: dict[str, object] = {"asked": self.event.targets}
        if self.because is not None and self.strike is not None:
            targets |= {"resolved": self.because, **self.strike.as_json()}
        return {
            "fault_id": self.event.id,
            "fault": self.event.fault,
            "label": self.label,
            "targets": json.dumps(targets, sort_keys=True),
            "planned_ms": self.event.at_ms,
            "started_ns": self.started_ns,
            "effective_ns": self.effective_ns,
            "healed_ns": self.healed_ns,
            "effect": self.effect,
            "healing": self.healing,
            "took_effect": self.effective_ns is not None,
            "error": self.error,
        }

    def failed(self, what: str) -> None:
        """Add an error to those already recorded."""
        self.error = what if self.error is None else f"{self.error}; {what}"


@dataclass(slots=True, kw_only=True)
class _InForce:
    fault: Fault
    strike: Strike
    record: FaultRecord
    heal_at_ns: int
    pulse_at_ns: int | None


class Nemesis:
    """Runs one schedule, once.

    `on_done` is called in the nemesis's thread with each record that is final (healed, failed, left
    out); what it raises is swallowed, since a full disk must not keep a partition in place.
    """

    def __init__(
        self,
        *,
        schedule: Schedule,
        hosts: Hosts,
        view: ClusterView,
        journal: Journal,
        clock: Clock,
        on_done: Callable[[FaultRecord], None],
    ) -> None:
        self._schedule = schedule
        self._hosts = hosts
        self._view = view
        self._journal = journal
        self._clock = clock
        self._on_done = on_done
        self._stop = threading.Event()
        self._start_ns = 0
        self._pending = list(schedule.events)
        self._in_force: list[_InForce] = []
        self._labels: tuple[str, ...] = ()

    def in_force(self) -> tuple[str, ...]:
        """The labels of the faults in force now; safe to call from any thread."""
        return self._labels

    def stop(self) -> None:
        """Make `run` heal everything and return soon; from any thread or signal handler."""
        self._stop.set()

    def run(self) -> None:
        """Run the schedule to its end or until `stop`; returns with everything healed."""
        self._start_ns = self._clock.now_ns()
        end_ns = self._start_ns + self._schedule.end_ms * 1_000_000
        try:
            while not self._stop.is_set() and (self._in_force or self._clock.now_ns() < end_ns):
                self._step()
                self._clock.wait(self._stop, self._sleep_s(end_ns))
        finally:
            self._finish()

    def _step(self) -> None:
        """Everything that is due now: heals first, then pulses, proofs and new faults."""
        now_ns = self._clock.now_ns()
        for active in [a for a in self._in_force if a.heal_at_ns <= now_ns]:
            self._heal(active)
        for active in self._in_force:
            self._pulse(active)
        for active in self._in_force:
            self._prove(active)
        for event in [e for e in self._pending if self._due_ns(e) <= now_ns]:
            if self._stop.is_set():
                return
            self._attempt(event)

    def _sleep_s(self, end_ns: int) -> float:
        now_ns = self._clock.now_ns()
        waiting = any(self._due_ns(event) <= now_ns for event in self._pending)
        if waiting or any(a.record.effective_ns is None for a in self._in_force):
            return TICK_S
        moments = [self._due_ns(event) for event in self._pending]
        moments += [active.heal_at_ns for active in self._in_force]
        moments += [a.pulse_at_ns for a in self._in_force if a.pulse_at_ns is not None]
        return max(0.0, (min([*moments, end_ns]) - now_ns) / 1e9) if moments else TICK_S

    def _due_ns(self, event: Event) -> int:
        return self._start_ns + event.at_ms * 1_000_000

    def _attempt(self, event: Event) -> None:
        """Strike, unless the event still waits for its condition or for its target."""
        waited_ms = (self._clock.now_ns() - self._due_ns(event)) // 1_000_000
        until_ms = event.until_timeout_ms if event.until else 0
        record = FaultRecord(event=event, label=event.fault)
        try:
            if event.until and not conditions.parse(event.until).holds(self._view):
                if waited_ms >= until_ms:
                    self._give_up(record, f"{event.until!r} did not hold within {until_ms} ms")
                return
            fault, strike = self._aim(event, record)
        except Unresolved as error:
            if waited_ms >= until_ms + RESOLVE_TIMEOUT_MS:
                self._give_up(record, str(error))
        except Exception as error:
            self._give_up(record, _said(error))
        else:
            self._pending.remove(event)
            self._inject(fault, strike, record)

    def _aim(self, event: Event, record: FaultRecord) -> tuple[Fault, Strike]:
        rng = random.Random(f"event/{self._schedule.seed}/{event.id}")
        nodes = list(self._hosts.processes.node_ids())
        found = resolve(event.targets, nodes, self._view, rng)
        fault = find(event.fault)
        params = Params.of(fault.options, event.params)
        strike = fault.aim(found.nodes, nodes, rng, params)
        record.because, record.strike, record.label = found.because, strike, fault.label(strike)
        return fault, strike

    def _inject(self, fault: Fault, strike: Strike, record: FaultRecord) -> None:
        event = record.event
        try:
            self._journal.record(
                "fault",
                fault_id=event.id,
                fault=event.fault,
                label=record.label,
                planned_ms=event.at_ms,
                at_ns=self._clock.now_ns(),
                **strike.as_json(),
            )
        except Exception as error:
            self._done(record, f"not injected, the journal cannot be written: {_said(error)}")
            return
        record.started_ns = self._clock.now_ns()
        active = _InForce(
            fault=fault,
            strike=strike,
            record=record,
            heal_at_ns=record.started_ns + event.duration_ms * 1_000_000,
            pulse_at_ns=_after(record.started_ns, fault.pulse_ms),
        )
        self._in_force.append(active)
        self._publish()
        try:
            fault.inject(self._hosts, strike)
        except Futile as error:
            self._in_force.remove(active)  # nothing was done, so there is nothing to undo
            self._publish()
            self._note(record, "fault-healed")
            self._done(record, f"not injected: {error}")
        except Exception as error:
            record.failed(_said(error))
            self._heal(active)
        else:
            self._prove(active)

    def _pulse(self, active: _InForce) -> None:
        now_ns, record = self._clock.now_ns(), active.record
        if active.pulse_at_ns is None or active.pulse_at_ns > now_ns or self._stop.is_set():
            return
        assert record.started_ns is not None
        try:
            elapsed_ms = (now_ns - record.started_ns) // 1_000_000
            active.fault.pulse(self._hosts, active.strike, elapsed_ms)
            active.pulse_at_ns = _after(now_ns, active.fault.pulse_ms)
        except Exception as error:
            record.failed(_said(error))
            active.pulse_at_ns = None  # it is broken as it is, until the heal

    def _prove(self, active: _InForce) -> None:
        """Look for the proof, until there is one."""
        if active.record.effective_ns is None:
            self._measure(active)

    def _measure(self, active: _InForce) -> None:
        record = active.record
        try:
            effect = active.fault.effect(self._hosts, active.strike)
        except Exception as error:
            record.effect = f"could not be measured: {_said(error)}"
            return
        if effect.took or record.effective_ns is None:
            record.effect = effect.evidence
        if effect.took and record.effective_ns is None:
            record.effective_ns = self._clock.now_ns()
            # For whoever judges a run whose harness dies before the record is final.
            self._note(record, "fault-effective", effect=effect.evidence)

    def _heal(self, active: _InForce) -> None:
        """Undo one fault, except for what another one still holds; never raises."""
        self._measure(active)
        self._in_force.remove(active)
        same = [a.strike for a in self._in_force if a.fault is active.fault]
        strike = active.strike.without([a.strike for a in self._in_force], same_fault=same)
        problem: str | None = None
        for attempt in range(HEAL_ATTEMPTS):
            if attempt:
                self._clock.wait(threading.Event(), TICK_S)
            problem = self._try_to_heal(active, strike)
            if problem is None:
                break
        self._publish()
        if problem is None:
            active.record.healed_ns = self._clock.now_ns()
            self._note(active.record, "fault-healed", healing=active.record.healing)
        self._done(active.record, problem and f"not healed: {problem}")

    def _try_to_heal(self, active: _InForce, strike: Strike) -> str | None:
        """One attempt; returns why it is not healed."""
        try:
            active.fault.heal(self._hosts, strike)
            proof = active.fault.healing(self._hosts, strike)
        except Exception as error:
            return _said(error)
        if not proof.took:
            return proof.evidence
        active.record.healing = proof.evidence
        return None

    def _note(self, record: FaultRecord, kind: str, **fields: object) -> None:
        try:
            self._journal.record(
                kind, fault_id=record.event.id, at_ns=self._clock.now_ns(), **fields
            )
        except Exception as error:
            # The fault itself is in the journal; an undo can only be done once too often.
            record.failed(f"{kind} is not in the journal: {_said(error)}")

    def _give_up(self, record: FaultRecord, why: str) -> None:
        self._pending.remove(record.event)
        self._done(record, f"not injected: {why}")

    def _done(self, record: FaultRecord, error: str | None = None) -> None:
        if error is not None:
            record.failed(error)
        # Whoever keeps the records must not be able to keep a partition in place.
        with contextlib.suppress(Exception):
            self._on_done(record)

    def _publish(self) -> None:
        self._labels = tuple(active.record.label for active in self._in_force)

    def _finish(self) -> None:
        self._stop.set()
        for active in reversed(self._in_force[:]):
            self._heal(active)
        for event in self._pending[:]:
            record = FaultRecord(event=event, label=event.fault)
            self._give_up(record, "the chaos phase ended first")


def _after(now_ns: int, pulse_ms: int | None) -> int | None:
    return None if pulse_ms is None else now_ns + pulse_ms * 1_000_000


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
