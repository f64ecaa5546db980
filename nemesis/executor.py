"""The nemesis: runs a schedule against hosts, and says what every fault really did.

It guarantees that each fault is in the journal, on disk, before it is made; that a fault counts as
effective only with a measured proof (packets dropped, a process gone or stopped); that everything
in force is healed at the end, on `stop`, and after any error; and that no error of one fault
reaches another or the caller: it is recorded with the fault. No globals; time comes from the clock
handed in.

One strand decides. What is done to one fault is done in a strand of its own, which the deciding one
waits for, but no longer than BLOCK_S: a fault that hangs delays nobody else's heal by more. New
faults wait for heals that are under way, so that none is undone by the heal of another.

Overlapping faults are kept apart: healing one leaves alone what another still holds.
"""

import contextlib
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from nemesis import conditions
from nemesis.base import Clock, ClusterView, Futile, Journal, Unresolved
from nemesis.concurrency import Strand
from nemesis.faults.catalogue import find
from nemesis.faults.fault import Fault, Params, Strike
from nemesis.hosts import CLIENTS, Hosts
from nemesis.record import FaultRecord, Struck
from nemesis.schedule import Event, Schedule
from nemesis.selectors import Resolved, resolve

TICK_S = 0.1
"""How often conditions are looked at and proofs are sought; the lateness of any action."""
RESOLVE_TIMEOUT_MS = 5_000
"""How long a target that names nobody (no leader known) is asked for again."""
HEAL_ATTEMPTS = 3
"""How often a heal is tried before the fault is recorded as not healed."""
BLOCK_S = 0.5
"""How long one fault may hold up the others."""


@dataclass(slots=True, kw_only=True)
class _InForce:
    """A fault from its strike to its heal. Whoever works on it has it for himself."""

    fault: Fault
    strike: Strike
    record: FaultRecord
    heal_at_ns: int | None = None
    pulse_at_ns: int | None = None
    healing: bool = False
    over: bool = False
    work: Strand | None = None

    @property
    def idle(self) -> bool:
        """Nobody works on it, and there is still something to do."""
        return not self.over and (self.work is None or self.work.done())


class Nemesis:
    """Runs one schedule, once.

    `on_done` is called in the nemesis's strand with each record that is final (healed, failed, left
    out); what it raises is swallowed, since a full disk must not keep a partition in place. With
    `leave`, what is in force at the end or at a stop stays, for a look at a broken cluster.
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
        leave: bool = False,
    ) -> None:
        self._schedule = schedule
        self._hosts = hosts
        self._view = view
        self._journal = journal
        self._clock = clock
        self._on_done = on_done
        self._leave = leave
        self._stop = threading.Event()
        self._start_ns = 0
        self._pending = list(schedule.events)
        self._in_force: list[_InForce] = []
        self._struck = Struck()
        self._labels: tuple[str, ...] = ()

    def in_force(self) -> tuple[str, ...]:
        """The labels of the faults in force now; safe to call from any thread.

        After `run` those that hang or were left.
        """
        return self._labels

    @property
    def finish_s(self) -> float:
        """How long the last heals may take together before they are given up as hanging: as long as
        the slowest fault of the schedule may take.
        """
        return max((find(e.fault).heal_within_s for e in self._schedule.events), default=0.0)

    def stop(self) -> None:
        """Make `run` heal everything and return soon; from any thread or signal handler."""
        self._stop.set()

    def run(self) -> None:
        """Run the schedule to its end or until `stop`; returns with everything healed."""
        self._start_ns = self._clock.now_ns()
        end_ns = self._start_ns + self._schedule.end_ms * 1_000_000
        try:
            while not self._stop.is_set() and self._goes_on(end_ns):
                self._step()
                self._clock.wait(self._stop, self._sleep_s(end_ns))
        finally:
            self._finish()

    def _goes_on(self, end_ns: int) -> bool:
        """Before the end; and after it, while a fault that struck late has time left."""
        if self._clock.now_ns() < end_ns:
            return True
        # Those that hang are waited for at the finish, which has a bound.
        return not self._leave and any(active.idle for active in self._in_force)

    def _step(self) -> None:
        """Everything that is due now: heals first, then pulses, proofs and new faults."""
        now_ns = self._clock.now_ns()
        for active in [a for a in self._in_force if a.idle and _passed(a.heal_at_ns, now_ns)]:
            self._heal(active)
        self._sweep()
        for active in [a for a in self._in_force if a.idle and _passed(a.pulse_at_ns, now_ns)]:
            if not self._stop.is_set():
                self._work(active, self._pulse)
        for active in [a for a in self._in_force if a.idle and a.record.effective_ns is None]:
            self._work(active, self._measure)
        for event in [e for e in self._pending if self._due_ns(e) <= now_ns]:
            if self._stop.is_set() or any(active.healing for active in self._in_force):
                return
            self._attempt(event)
            self._sweep()

    def _sleep_s(self, end_ns: int) -> float:
        now_ns = self._clock.now_ns()
        waiting = any(self._due_ns(event) <= now_ns for event in self._pending)
        if waiting or any(not a.idle or a.record.effective_ns is None for a in self._in_force):
            longest_s = TICK_S
        else:
            longest_s = max(0.0, (end_ns - now_ns) / 1e9) or TICK_S
        moments = [due for event in self._pending if (due := self._due_ns(event)) > now_ns]
        for active in self._in_force:
            if active.idle:
                moments += [m for m in (active.heal_at_ns, active.pulse_at_ns) if m is not None]
        return max(0.0, min([longest_s, *((moment - now_ns) / 1e9 for moment in moments)]))

    def _due_ns(self, event: Event) -> int:
        return self._start_ns + event.at_ms * 1_000_000

    # -- a new fault

    def _attempt(self, event: Event) -> None:
        """Strike, unless the event still waits for its condition or for its target."""
        waited_ms = (self._clock.now_ns() - self._due_ns(event)) // 1_000_000
        until_ms = event.until_timeout_ms if event.until else 0
        record = FaultRecord(event=event, label=event.fault)
        try:
            if event.until and not self._holds(event.until):
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
            active = _InForce(fault=fault, strike=strike, record=record)
            self._in_force.append(active)
            self._struck.add(record)
            self._publish()
            self._work(active, self._inject)

    def _holds(self, until: str) -> bool:
        condition = conditions.parse(until)
        if condition.in_turn and not self._struck.turn_is_over(self._clock.now_ns()):
            return False
        return condition.holds(self._view, self._struck)

    def _aim(self, event: Event, record: FaultRecord) -> tuple[Fault, Strike]:
        nodes = list(self._hosts.processes.node_ids())
        found = self._resolve(event, nodes)
        fault = find(event.fault)
        params = Params.of(fault.options, event.params)
        # Drawn apart from the targets: the same nodes are then struck in the same way again.
        rng = random.Random(f"aim/{self._schedule.seed}/{event.id}")
        strike = fault.aim(found.nodes, nodes, rng, params)
        record.found, record.strike, record.label = found, strike, fault.label(strike)
        return fault, strike

    def _resolve(self, event: Event, nodes: list[int]) -> Resolved:
        if event.nodes is not None:
            return Resolved(nodes=event.nodes, because="the schedule names them")
        rng = random.Random(f"event/{self._schedule.seed}/{event.id}")
        return resolve(event.targets, nodes, self._view, rng)

    def _inject(self, active: _InForce) -> None:
        record, event = active.record, active.record.event
        with contextlib.suppress(Exception):  # the injection meets it as well, and says so
            active.fault.prepare(self._hosts, active.strike)
        try:
            self._journal.record(
                "fault",
                fault_id=event.id,
                fault=event.fault,
                label=record.label,
                planned_ms=event.at_ms,
                at_ns=self._clock.now_ns(),
                **active.strike.as_json(),
            )
        except Exception as error:
            record.failed(f"not injected, the journal cannot be written: {_said(error)}")
            active.over = True
            return
        began_ns = record.started_ns = self._clock.now_ns()
        active.heal_at_ns = began_ns + event.duration_ms * 1_000_000
        active.pulse_at_ns = _after(began_ns, active.fault.pulse_ms)
        try:
            active.fault.inject(self._hosts, active.strike)
        except Futile as error:
            # Nothing was done, so there is nothing to undo.
            self._note(record, "fault-healed")
            record.failed(f"not injected: {error}")
            active.over = True
        except Exception as error:
            record.failed(_said(error))
            active.heal_at_ns = began_ns
        else:
            record.inject_ms = self._since_ms(began_ns)
            self._measure(active)

    # -- a fault in force

    def _pulse(self, active: _InForce) -> None:
        now_ns, record = self._clock.now_ns(), active.record
        assert record.started_ns is not None
        try:
            elapsed_ms = (now_ns - record.started_ns) // 1_000_000
            active.fault.pulse(self._hosts, self._here(active.strike), elapsed_ms)
            active.pulse_at_ns = _after(now_ns, active.fault.pulse_ms)
        except Exception as error:
            record.failed(_said(error))
            active.pulse_at_ns = None  # it is broken as it is, until the heal

    def _measure(self, active: _InForce) -> None:
        """Look for the proof of the effect."""
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

    # -- its end

    def _heal(self, active: _InForce) -> None:
        """Undo one fault, except for what another one still holds; never raises."""
        active.healing = True
        holding = [a for a in self._in_force if not a.healing and not a.over]
        same = [a.strike for a in holding if a.fault is active.fault]
        strike = active.strike.without([a.strike for a in holding], same_fault=same)
        self._work(active, lambda _: self._undo(active, strike))

    def _undo(self, active: _InForce, strike: Strike) -> None:
        self._measure(active)
        problem: str | None = None
        for attempt in range(HEAL_ATTEMPTS):
            if attempt:
                self._clock.wait(threading.Event(), TICK_S)
            problem = self._try_to_heal(active, strike)
            if problem is None:
                break
        if problem is None:
            active.record.healed_ns = self._clock.now_ns()
            self._look_after(active, strike)
            self._note(active.record, "fault-healed", healing=active.record.healing)
        else:
            active.record.failed(f"not healed: {problem}")
        active.over = True

    def _look_after(self, active: _InForce, strike: Strike) -> None:
        """What a fault has begun may go on after its heal, for as long as it says itself."""
        until_ns = self._clock.now_ns() + active.fault.look_after_ms * 1_000_000
        while not self._leave and self._clock.now_ns() < until_ns:
            self._clock.wait(threading.Event(), TICK_S)
            try:
                done = active.fault.look_after(self._hosts, self._here(strike))
            except Exception as error:
                active.record.failed(f"healed, and not looked after: {_said(error)}")
                return
            if done:
                active.record.healing = f"{active.record.healing}; {done}"

    def _try_to_heal(self, active: _InForce, strike: Strike) -> str | None:
        """One attempt; returns why it is not healed."""
        began_ns = self._clock.now_ns()
        try:
            strike = self._here(strike)
            active.fault.heal(self._hosts, strike)
            active.record.heal_ms = self._since_ms(began_ns)
            proof = active.fault.healing(self._hosts, strike)
        except Exception as error:
            return _said(error)
        if not proof.took:
            return proof.evidence
        active.record.healing = proof.evidence
        return None

    def _here(self, strike: Strike) -> Strike:
        """The strike on those of its nodes that have not left the cluster meanwhile."""
        there = {*self._hosts.processes.node_ids(), CLIENTS}
        return replace(strike, nodes=tuple(node for node in strike.nodes if node in there))

    def _finish(self) -> None:
        """Heal everything, the latest first, and account for what never struck."""
        self._stop.set()
        deadline_ns = self._clock.now_ns() + round(self.finish_s * 1e9)
        while not self._leave and self._in_force and self._clock.now_ns() < deadline_ns:
            for active in [a for a in reversed(self._in_force) if a.idle]:
                self._heal(active)
            self._sweep()
            if self._in_force:
                self._clock.wait(threading.Event(), TICK_S)
        for active in self._in_force:
            hangs = "left in force" if self._leave else "not healed: it hangs"
            active.record.failed(hangs)
            self._done(active.record)
        for event in self._pending[:]:
            record = FaultRecord(event=event, label=event.fault)
            self._give_up(record, "the chaos phase ended first")

    # -- small things

    def _work(self, active: _InForce, work: Callable[[_InForce], None]) -> None:
        """Do something to one fault, and wait for it as long as the others can bear."""
        name = f"fault {active.record.event.id}"
        active.work = self._hosts.strands.spawn(lambda: work(active), name)
        active.work.wait(BLOCK_S)

    def _sweep(self) -> None:
        """Let go of the faults that are over."""
        for active in [a for a in self._in_force if a.over]:
            self._in_force.remove(active)
            self._done(active.record)
        self._publish()

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
        record.failed(f"not injected: {why}")
        self._done(record)

    def _done(self, record: FaultRecord) -> None:
        # Whoever keeps the records must not be able to keep a partition in place.
        with contextlib.suppress(Exception):
            self._on_done(record)

    def _publish(self) -> None:
        self._labels = tuple(active.record.label for active in self._in_force if not active.over)

    def _since_ms(self, began_ns: int) -> float:
        return round((self._clock.now_ns() - began_ns) / 1e6, 3)


def _passed(moment_ns: int | None, now_ns: int) -> bool:
    return moment_ns is not None and moment_ns <= now_ns


def _after(now_ns: int, pulse_ms: int | None) -> int | None:
    return None if pulse_ms is None else now_ns + pulse_ms * 1_000_000


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
