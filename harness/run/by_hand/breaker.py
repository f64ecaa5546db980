"""Injects faults into a running cluster and heals them, one by one, on request.

It is a nemesis without a schedule: the same faults, selectors, journal, proofs and heals as in a
run. A fault stays in force until it is healed, or for the time that was asked for. The journal
alone says which faults there are: so a fault whose breaker died is healed by the next one.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any, Final

from harness.recording.history import OperationWriter
from harness.recording.journal import Record
from harness.recording.store import Run
from harness.run import zookeeper_targets
from harness.run.administration.administrator import Administrator
from harness.run.by_hand.attached import Attached
from harness.run.by_hand.faults_of_journal import Row, list_faults, unhealed
from harness.run.by_hand.protocol import FAILURE, PROVE_S, REQUEST, SETTLE_S, Refused
from harness.run.hosts import hosts_of
from harness.systems.ensemble.choose import watch_of
from harness.systems.monitoring.monitor import Monitor
from nemesis import selectors
from nemesis.executor import Nemesis
from nemesis.faults.catalogue import find
from nemesis.faults.fault import Ability, Injection, Params
from nemesis.record import FaultRecord
from nemesis.schedule import LONGEST_MS, Event, Schedule

POLL_S: Final = 0.02
MONITOR_CLIENT: Final = 1
SLACK_S: Final = 15.0
"""How long an injection or a heal may take beyond what the fault itself says."""


class _NoRows(OperationWriter):
    """What the monitor of a run would record; nobody judges a cluster that is broken by hand."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        super().__init__(MONITOR_CLIENT)
        self._now_ns = now_ns
        self.append = lambda _row: None

    def now_ns(self) -> int:
        return self._now_ns()

    def flush(self) -> int:
        return 0

    def append_named(self, **columns: Any) -> None:
        """Forget a row of the cluster's table."""


class _Clock:
    """The run's time, and a wait that a new request ends."""

    def __init__(self, run: Run) -> None:
        self.now_ns = run.now_ns
        self.request = threading.Event()

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        self.request.wait(seconds)
        self.request.clear()
        return stop.is_set()


class Breaker:
    """Breaks one cluster. Any thread may call; `close` heals everything."""

    def __init__(self, cluster: Attached, *, client_port: int | None = None) -> None:
        """Take over the faults that the journal has in force, if any.

        `client_port` is where clients reach the nodes, if that is not where brokers do.
        """
        self._client_port = client_port
        self._target, self._journal = cluster.target, cluster.journal
        rows = _NoRows(cluster.run.now_ns)
        self._monitor = Monitor(
            brokers=cluster.system.brokers,
            controllers=cluster.system.controllers,
            partitions={},
            writer=rows,
            client=MONITOR_CLIENT,
            cluster=rows,
            enter_network=cluster.target.in_client_netns,
            security=cluster.system.access.channel(),
            ensemble=watch_of(cluster.system.zookeepers, cluster.run.now_ns),
        )
        self._administrator = Administrator(cluster.system, cluster.target, self._monitor)
        self._clock = _Clock(cluster.run)
        self._over: dict[int, FaultRecord] = {}
        self._nemesis = Nemesis(
            schedule=Schedule(seed=time.time_ns() & 0xFFFF_FFFF, end_ms=LONGEST_MS, events=()),
            hosts=hosts_of(cluster.target, self._monitor, self._administrator),
            view=self._monitor,
            journal=cluster.journal,
            clock=self._clock,
            on_done=lambda record: self._over.__setitem__(record.event.id, record),
        )
        known = list_faults(cluster.journal.records())
        self._ids = count(max((row["id"] for row in known), default=0) + 1)
        self._adopt(cluster.journal.records())
        self._monitor.start()
        self._thread = threading.Thread(target=self._nemesis.run, name="nemesis", daemon=True)
        self._thread.start()

    def inject(
        self,
        fault: str,
        targets: str = "",
        params: Mapping[str, str] | None = None,
        *,
        duration_ms: int | None = None,
        prove_s: float = PROVE_S,
    ) -> Row:
        """Inject a fault, and wait up to `prove_s` for the proof of its effect; return its row.

        `targets` is a selector, by default the fault's own. Raises Refused and NemesisError when
        nothing was injected.
        """
        event = self._event(fault, targets, params or {}, duration_ms)
        topics = self._administrator.topics()
        self._monitor.watch_topics(
            {t: n for t, n in topics.items() if not t.startswith("__") or f":{t}/" in event.targets}
        )
        self._nemesis.add(event)
        self._clock.request.set()
        deadline_s = time.monotonic() + find(fault).heal_timeout_s + SLACK_S
        record = self._await(lambda: self._begun(event.id), deadline_s, f"{fault} did not begin")
        if event.id in self._over and record.started_ns is None:
            raise Refused(str(record.error))
        proof_s = time.monotonic() + prove_s
        while record.effective_ns is None and record.error is None and time.monotonic() < proof_s:
            if event.id in self._over:
                break
            time.sleep(POLL_S)
        if record.error is not None:
            with suppress(Refused):
                self.heal(event.id)
            kind = REQUEST if record.error.startswith("not injected") else FAILURE
            raise Refused(f"{record.label}: {record.error}", kind)
        return _row(record)

    def heal(self, fault_id: int) -> Row:
        """Heal one fault and return its row, with the proofs. Raises Refused."""
        record = self._record(fault_id)
        if fault_id not in self._over:
            self._nemesis.heal(fault_id)
            self._clock.request.set()
            patience_s = find(record.event.fault).heal_timeout_s + SLACK_S
            record = self._await(
                lambda: self._over.get(fault_id),
                time.monotonic() + patience_s,
                f"{record.label} is not healed after {patience_s:.0f} s",
            )
        if record.healed_ns is None and record.started_ns is not None:
            raise Refused(f"{record.label}: {record.error or 'not healed'}", FAILURE)
        return _row(record)

    def heal_all(self) -> list[Row]:
        """Heal every fault in force, the latest first; return their rows. Raises Refused."""
        return [self.heal(fault_id) for fault_id in reversed(self.in_force())]

    def in_force(self) -> list[int]:
        """The ids of the faults in force, in the order of their injection."""
        return [r.event.id for r in self._nemesis.records() if r.event.id not in self._over]

    def faults(self) -> list[Row]:
        """The rows of all faults of the journal, with the effect as it is measured now."""
        live = {r.event.id: _row(r) for r in self._nemesis.records()}
        return [{**row, **live.get(row["id"], {})} for row in list_faults(self._journal.records())]

    def settle(self, timeout_s: float = SETTLE_S) -> list[str]:
        """Wait until every replica is in sync again; return what still is not."""
        self._monitor.watch_topics(self._administrator.topics())
        return self._monitor.wait_settled(timeout_s)

    def close(self) -> list[str]:
        """Heal everything and end; return what could not be undone."""
        self._nemesis.stop()
        self._clock.request.set()
        self._thread.join(self._nemesis.finish_s + SLACK_S)
        left = [*self._nemesis.in_force(), *self._administrator.finish(SETTLE_S)]
        self._monitor.stop()
        return left

    def _event(
        self, name: str, targets: str, params: Mapping[str, str], duration_ms: int | None
    ) -> Event:
        """Check a request. Raises NemesisError, Refused."""
        fault = find(name)
        given = {key: str(value) for key, value in params.items()}
        values = Params.of(fault.options, given).values
        if self._client_port is not None and values.get("peers") == "clients" and "port" in values:
            given = {"port": str(self._client_port), **given}
        servers = len(self._monitor.zookeepers())
        zookeeper_targets.check(fault, selectors.parse(targets or fault.default_selector), servers)
        if Ability.CLOCKS in fault.needs:
            raise Refused(
                f"{name} needs nodes with wall clocks of their own, which only the clusters of "
                "plans have: put it into a plan for `highwater run`"
            )
        if lacks := sorted(fault.needs - self._target.abilities):
            raise Refused(
                f"{name} cannot be injected here: the cluster's machines lack "
                f"{', '.join(lacks)}; `highwater doctor` says how to get it"
            )
        nodes = len(self._target.node_ids()) - servers
        if nodes < fault.min_nodes:
            raise Refused(f"{name} needs {fault.min_nodes} nodes, and there are {nodes}")
        return Event(
            id=next(self._ids),
            at_ms=0,
            fault=name,
            targets=targets or fault.default_selector,
            duration_ms=duration_ms or LONGEST_MS,
            params=given,
        )

    def _adopt(self, records: Iterable[Record]) -> None:
        for entry in unhealed(records).values():
            event = Event(
                id=int(str(entry["fault_id"])),
                at_ms=0,
                fault=str(entry["fault"]),
                targets=find(str(entry["fault"])).default_selector,
                duration_ms=LONGEST_MS,
            )
            self._nemesis.adopt(event, Injection.from_journal(entry), int(str(entry["at_ns"])))

    def _begun(self, fault_id: int) -> FaultRecord | None:
        """The record of a fault that is injected, or that could not be."""
        if fault_id in self._over:
            return self._over[fault_id]
        found = next((r for r in self._nemesis.records() if r.event.id == fault_id), None)
        begun = found is not None and (found.inject_ms is not None or found.error is not None)
        return found if begun else None

    def _record(self, fault_id: int) -> FaultRecord:
        found = next((r for r in self._nemesis.records() if r.event.id == fault_id), None)
        if found is None:
            known = ", ".join(map(str, self.in_force())) or "none"
            raise Refused(f"there is no fault {fault_id} in force; in force: {known}")
        return found

    def _await(
        self, find_record: Callable[[], FaultRecord | None], deadline_s: float, failure: str
    ) -> FaultRecord:
        while time.monotonic() < deadline_s:
            if not self._thread.is_alive() and find_record() is None:
                break
            if (record := find_record()) is not None:
                return record
            time.sleep(POLL_S)
        raise Refused(failure, FAILURE)


def _row(record: FaultRecord) -> Row:
    over = record.healed_ns is not None
    return {
        "id": record.event.id,
        "fault": record.event.fault,
        "label": record.label,
        "state": "healed" if over else "in force",
        "effective": record.effective_ns is not None,
        "effect": record.effect,
        "healing": record.healing,
        "nodes": list(record.injection.nodes) if record.injection is not None else [],
    }
