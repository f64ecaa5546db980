"""The nemesis: runs a schedule against hosts, and records what every fault really did.

It guarantees:

- Each fault is in the journal, on disk, before it is injected.
- A fault counts as effective only with measured evidence (packets dropped, a process gone).
- All faults in force are healed at the end, on `stop`, and after any error.
- An error of one fault does not reach another fault or the caller; it is recorded with the fault.

There are no globals; time comes from the given clock.

One thread makes all decisions. Each fault is injected and healed in a background task of its own.
The deciding thread waits for the task, but at most LONGEST_WAIT_S; so a fault that hangs does not
delay the heals of other faults any longer. New faults wait until heals in progress are done, so
that no heal undoes a new fault.

Faults may overlap: the heal of one fault does not undo what another fault still holds.

People and tests may break a cluster by hand, too: any thread may add an event while the schedule
runs, and ask for the heal of one fault.
"""

import contextlib
import random
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from nemesis import conditions
from nemesis.base import Clock, ClusterView, Journal, NotApplicable, UnresolvedSelector
from nemesis.concurrency import BackgroundTask
from nemesis.faults.catalogue import find
from nemesis.faults.fault import Fault, Injection, Params
from nemesis.hosts import CLIENTS, Hosts
from nemesis.record import FaultRecord, InjectedEvents
from nemesis.schedule import Event, Schedule
from nemesis.selectors import Selection, resolve

POLL_S = 0.1
"""How often conditions and effects are checked; an action may be late by this much."""
RESOLVE_TIMEOUT_MS = 5_000
"""How long a selector that chooses no node (no leader known) is retried."""
HEAL_ATTEMPTS = 3
"""How often a heal is tried before the fault is recorded as not healed."""
LONGEST_WAIT_S = 0.5
"""How long one fault may delay the others."""


@dataclass(slots=True, kw_only=True)
class _ActiveFault:
    """A fault from its injection to its heal; only one task at a time works on it."""

    fault: Fault
    injection: Injection
    record: FaultRecord
    heal_at_ns: int | None = None
    tick_at_ns: int | None = None
    healing: bool = False
    over: bool = False
    work: BackgroundTask | None = None

    @property
    def idle(self) -> bool:
        """Whether the fault is not over and no task works on it."""
        return not self.over and (self.work is None or self.work.done())

    @property
    def holds(self) -> bool:
        """Whether what it shares with other faults is its own to undo: not before its injection,
        which may come too late to find anything."""
        return self.record.started_ns is not None and not self.healing and not self.over


class Nemesis:
    """Runs one schedule, once.

    `on_done` is called in the nemesis's thread with each final record (healed, failed, skipped).
    Its errors are ignored, because a full disk must not keep a network partition in place. With
    `leave`, the faults in force at the end or at a stop stay, so that the broken cluster can be
    inspected.
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
        self._known = list(schedule.events)
        self._added: deque[Event] = deque()
        self._asked_to_heal: deque[int] = deque()
        self._in_force: list[_ActiveFault] = []
        self._injected = InjectedEvents()
        self._labels: tuple[str, ...] = ()

    def in_force(self) -> tuple[str, ...]:
        """The labels of the faults in force now; any thread may call.

        After `run`: of the faults that hang or were left in force.
        """
        return self._labels

    @property
    def finish_s(self) -> float:
        """How long the last heals may take together before they count as hanging: the longest heal
        timeout of the faults.
        """
        return max((find(e.fault).heal_timeout_s for e in self._known), default=0.0)

    def records(self) -> tuple[FaultRecord, ...]:
        """The records of all faults that were injected so far; they change until they are over."""
        return tuple(self._injected.records)

    def add(self, event: Event) -> None:
        """Inject one more event now; its id must be new. Any thread may call."""
        self._known.append(event)
        self._added.append(event)

    def adopt(self, event: Event, injection: Injection, started_ns: int) -> None:
        """Take over a fault that a dead nemesis left in force. Call it before `run`."""
        fault = find(event.fault)
        record = FaultRecord(
            event=event,
            label=fault.label(injection),
            injection=injection,
            started_ns=started_ns,
        )
        self._known.append(event)
        self._in_force.append(_ActiveFault(fault=fault, injection=injection, record=record))
        self._injected.add(record)
        self._publish()

    def heal(self, fault_id: int) -> None:
        """Heal one fault soon; do nothing for a fault that is over. Any thread may call."""
        self._asked_to_heal.append(fault_id)

    def stop(self) -> None:
        """Make `run` heal everything and return soon; any thread or signal handler may call."""
        self._stop.set()

    def run(self) -> None:
        """Run the schedule to its end or until `stop`; return when everything is healed."""
        self._start_ns = self._clock.now_ns()
        end_ns = self._start_ns + self._schedule.end_ms * 1_000_000
        try:
            while not self._stop.is_set() and self._is_running(end_ns):
                self._step()
                self._clock.wait(self._stop, self._sleep_s(end_ns))
        finally:
            self._finish()

    def _is_running(self, end_ns: int) -> bool:
        """True before the end, and after it while a fault that began late is still in force."""
        if self._clock.now_ns() < end_ns:
            return True
        # `_finish` waits for faults that hang; that wait has a bound.
        return not self._leave and any(active.idle for active in self._in_force)

    def _step(self) -> None:
        """Do everything that is due now: heals first, then ticks, measurements and new faults."""
        now_ns = self._clock.now_ns()
        self._take_requests(now_ns)
        for active in [a for a in self._in_force if a.idle and _passed(a.heal_at_ns, now_ns)]:
            self._heal(active)
        self._remove_finished()
        for active in [a for a in self._in_force if a.idle and _passed(a.tick_at_ns, now_ns)]:
            if not self._stop.is_set():
                self._work(active, self._tick)
        for active in [a for a in self._in_force if a.idle and a.record.effective_ns is None]:
            self._work(active, self._measure)
        for event in [e for e in self._pending if self._due_ns(e) <= now_ns]:
            if self._stop.is_set() or any(active.healing for active in self._in_force):
                return
            self._try_event(event)
            self._remove_finished()

    def _take_requests(self, now_ns: int) -> None:
        """Take over what other threads have asked for since the last step."""
        while self._added:
            at_ms = (now_ns - self._start_ns) // 1_000_000
            self._pending.append(self._added.popleft().model_copy(update={"at_ms": at_ms}))
        for _ in range(len(self._asked_to_heal)):
            fault_id = self._asked_to_heal.popleft()
            found = [a for a in self._in_force if a.record.event.id == fault_id and not a.healing]
            for active in found:
                if active.idle:
                    active.heal_at_ns = now_ns
                else:  # it is still being injected
                    self._asked_to_heal.append(fault_id)

    def _sleep_s(self, end_ns: int) -> float:
        now_ns = self._clock.now_ns()
        waiting = any(self._due_ns(event) <= now_ns for event in self._pending)
        if waiting or any(not a.idle or a.record.effective_ns is None for a in self._in_force):
            longest_s = POLL_S
        else:
            longest_s = max(0.0, (end_ns - now_ns) / 1e9) or POLL_S
        moments = [due for event in self._pending if (due := self._due_ns(event)) > now_ns]
        for active in self._in_force:
            if active.idle:
                moments += [m for m in (active.heal_at_ns, active.tick_at_ns) if m is not None]
        return max(0.0, min([longest_s, *((moment - now_ns) / 1e9 for moment in moments)]))

    def _due_ns(self, event: Event) -> int:
        return self._start_ns + event.at_ms * 1_000_000

    # -- a new fault

    def _try_event(self, event: Event) -> None:
        """Inject the event's fault, unless it still waits for its condition or its selector."""
        waited_ms = (self._clock.now_ns() - self._due_ns(event)) // 1_000_000
        until_ms = event.until_timeout_ms if event.until else 0
        record = FaultRecord(event=event, label=event.fault)
        try:
            if event.until and not self._holds(event.until):
                if waited_ms >= until_ms:
                    self._skip(record, f"{event.until!r} did not hold within {until_ms} ms")
                return
            fault, injection = self._plan_injection(event, record)
        except UnresolvedSelector as error:
            if waited_ms >= until_ms + RESOLVE_TIMEOUT_MS:
                self._skip(record, str(error))
        except Exception as error:
            self._skip(record, _error_text(error))
        else:
            self._pending.remove(event)
            active = _ActiveFault(fault=fault, injection=injection, record=record)
            self._in_force.append(active)
            self._injected.add(record)
            self._publish()
            self._work(active, self._inject)

    def _holds(self, until: str) -> bool:
        condition = conditions.parse(until)
        if condition.one_at_a_time and not self._injected.serial_events_are_over(
            self._clock.now_ns()
        ):
            return False
        return condition.holds(self._view, self._injected)

    def _plan_injection(self, event: Event, record: FaultRecord) -> tuple[Fault, Injection]:
        nodes = list(self._hosts.processes.node_ids())
        selection = self._resolve(event, nodes)
        fault = find(event.fault)
        params = Params.of(fault.options, event.params)
        # A random stream apart from the selector's: a repeat with fixed nodes draws the same.
        rng = random.Random(f"aim/{self._schedule.seed}/{event.id}")
        injection = fault.plan_injection(selection.nodes, nodes, rng, params)
        record.selection, record.injection, record.label = (
            selection,
            injection,
            fault.label(injection),
        )
        return fault, injection

    def _resolve(self, event: Event, nodes: list[int]) -> Selection:
        if event.nodes is not None:
            return Selection(nodes=event.nodes, reason="the schedule names them")
        rng = random.Random(f"event/{self._schedule.seed}/{event.id}")
        return resolve(event.targets, nodes, self._view, rng)

    def _inject(self, active: _ActiveFault) -> None:
        record, event = active.record, active.record.event
        with contextlib.suppress(Exception):  # the injection fails with the same error, recorded
            active.fault.prepare(self._hosts, active.injection)
        try:
            self._journal.record(
                "fault",
                fault_id=event.id,
                fault=event.fault,
                label=record.label,
                planned_ms=event.at_ms,
                at_ns=self._clock.now_ns(),
                **active.injection.as_json(),
                **active.injection.exact_cuts(),
            )
        except Exception as error:
            record.failed(f"not injected: the journal cannot be written: {_error_text(error)}")
            active.over = True
            return
        began_ns = record.started_ns = self._clock.now_ns()
        active.heal_at_ns = began_ns + event.duration_ms * 1_000_000
        active.tick_at_ns = _after(began_ns, active.fault.tick_ms)
        try:
            active.fault.inject(self._hosts, active.injection)
        except NotApplicable as error:
            # Nothing was injected, so there is nothing to undo.
            self._note(record, "fault-healed")
            record.failed(f"not injected: {error}")
            active.over = True
        except Exception as error:
            record.failed(_error_text(error))
            active.heal_at_ns = began_ns
        else:
            record.inject_ms = self._since_ms(began_ns)
            self._measure(active)

    # -- a fault in force

    def _tick(self, active: _ActiveFault) -> None:
        now_ns, record = self._clock.now_ns(), active.record
        assert record.started_ns is not None
        try:
            elapsed_ms = (now_ns - record.started_ns) // 1_000_000
            active.fault.tick(
                self._hosts, self._without_departed_nodes(active.injection), elapsed_ms
            )
            active.tick_at_ns = _after(now_ns, active.fault.tick_ms)
        except Exception as error:
            record.failed(_error_text(error))
            active.tick_at_ns = None  # no more ticks: the fault stays as it is until the heal

    def _measure(self, active: _ActiveFault) -> None:
        """Measure whether the fault has an effect."""
        record = active.record
        try:
            effect = active.fault.measure_effect(self._hosts, active.injection)
        except Exception as error:
            record.effect = f"could not be measured: {_error_text(error)}"
            return
        if effect.confirmed or record.effective_ns is None:
            record.measured(effect)
        if effect.confirmed and record.effective_ns is None:
            record.effective_ns = self._clock.now_ns()
            # A run whose harness dies before the record is final is judged by this entry.
            self._note(record, "fault-effective", effect=record.effect, damaged=record.damaged)

    # -- its end

    def _heal(self, active: _ActiveFault) -> None:
        """Heal one fault, except for what another fault still holds; never raises."""
        active.healing = True
        holding = [a for a in self._in_force if a.holds]
        same = [a.injection for a in holding if a.fault is active.fault]
        injection = active.injection.without([a.injection for a in holding], same_fault=same)
        self._work(active, lambda _: self._undo(active, injection))

    def _undo(self, active: _ActiveFault, injection: Injection) -> None:
        self._measure(active)
        problem: str | None = None
        for attempt in range(HEAL_ATTEMPTS):
            if attempt:
                self._clock.wait(threading.Event(), POLL_S)
            problem = self._try_to_heal(active, injection)
            if problem is None:
                break
        if problem is None:
            active.record.healed_ns = self._clock.now_ns()
            self._follow_up(active, injection)
            self._note(active.record, "fault-healed", healing=active.record.healing)
        else:
            active.record.failed(f"not healed: {problem}")
        active.over = True

    def _follow_up(self, active: _ActiveFault, injection: Injection) -> None:
        """Undo late consequences of a healed fault, for its `follow_up_ms`."""
        until_ns = self._clock.now_ns() + active.fault.follow_up_ms * 1_000_000
        while not self._leave and self._clock.now_ns() < until_ns:
            self._clock.wait(threading.Event(), POLL_S)
            try:
                done = active.fault.follow_up(self._hosts, self._without_departed_nodes(injection))
            except Exception as error:
                active.record.failed(f"healed, but the follow-up failed: {_error_text(error)}")
                return
            if done:
                active.record.healing = f"{active.record.healing}; {done}"

    def _try_to_heal(self, active: _ActiveFault, injection: Injection) -> str | None:
        """Try to heal once; return the problem, or None when healed."""
        began_ns = self._clock.now_ns()
        try:
            injection = self._without_departed_nodes(injection)
            active.fault.heal(self._hosts, injection)
            active.record.heal_ms = self._since_ms(began_ns)
            proof = active.fault.measure_heal(self._hosts, injection)
        except Exception as error:
            return _error_text(error)
        if not proof.confirmed:
            return proof.evidence
        active.record.healing = proof.evidence
        return None

    def _without_departed_nodes(self, injection: Injection) -> Injection:
        """The injection without the nodes that have left the cluster meanwhile."""
        present = {*self._hosts.processes.node_ids(), CLIENTS}
        return replace(injection, nodes=tuple(node for node in injection.nodes if node in present))

    def _finish(self) -> None:
        """Heal everything, the latest first, and record the events that were never injected."""
        self._stop.set()
        deadline_ns = self._clock.now_ns() + round(self.finish_s * 1e9)
        while not self._leave and self._in_force and self._clock.now_ns() < deadline_ns:
            for active in [a for a in reversed(self._in_force) if a.idle]:
                self._heal(active)
            self._remove_finished()
            if self._in_force:
                self._clock.wait(threading.Event(), POLL_S)
        for active in self._in_force:
            hangs = "left in force" if self._leave else "not healed: it hangs"
            active.record.failed(hangs)
            self._done(active.record)
        for event in self._pending[:]:
            record = FaultRecord(event=event, label=event.fault)
            self._skip(record, "the chaos phase ended first")

    # -- helpers

    def _work(self, active: _ActiveFault, work: Callable[[_ActiveFault], None]) -> None:
        """Run `work` on one fault in a task, and wait for it at most LONGEST_WAIT_S."""
        name = f"fault {active.record.event.id}"
        active.work = self._hosts.task_runner.spawn(lambda: work(active), name)
        active.work.wait(LONGEST_WAIT_S)

    def _remove_finished(self) -> None:
        """Remove the faults that are over."""
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
            # The fault itself is in the journal; at worst it is undone a second time, harmlessly.
            record.failed(f"{kind} is not in the journal: {_error_text(error)}")

    def _skip(self, record: FaultRecord, why: str) -> None:
        self._pending.remove(record.event)
        record.failed(f"not injected: {why}")
        self._done(record)

    def _done(self, record: FaultRecord) -> None:
        # An error of the receiver must not keep a network partition in place.
        with contextlib.suppress(Exception):
            self._on_done(record)

    def _publish(self) -> None:
        self._labels = tuple(active.record.label for active in self._in_force if not active.over)

    def _since_ms(self, began_ns: int) -> float:
        return round((self._clock.now_ns() - began_ns) / 1e6, 3)


def _passed(moment_ns: int | None, now_ns: int) -> bool:
    return moment_ns is not None and moment_ns <= now_ns


def _after(now_ns: int, tick_ms: int | None) -> int | None:
    return None if tick_ms is None else now_ns + tick_ms * 1_000_000


def _error_text(error: Exception) -> str:
    return str(error) or type(error).__name__
