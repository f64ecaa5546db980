"""The power of machines that a hypervisor can switch off and on. See `nemesis.hosts.Power`.

The journal records how to switch a machine on before anything is made there, because nothing on a
machine without power can heal it, not even the dead-man's timer. It does not matter who switched
the machine off.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Final, NamedTuple, Protocol

from harness.recording.journal import Journal
from harness.targets.agent.server import Session
from harness.targets.base import TargetError
from harness.targets.linux.disks import files
from harness.targets.parallel import in_parallel
from harness.targets.ssh.connection import recorded
from harness.targets.ssh.machine import RemoteMachine
from nemesis.hosts import Boot, Disks

BOOT_TIMEOUT_S: Final = 600.0

log = logging.getLogger(__name__)


class PowerSwitch(Protocol):
    """The power switch of one machine. Calls return when the state is reached; they may raise
    TargetError.
    """

    kind: str
    """The kind of the journal's records that are undone with this switch."""

    @property
    def record(self) -> Mapping[str, object]:
        """The fields of the journal's record."""
        ...

    def switch_off(self) -> None:
        """Cut the power at once, without a shutdown of the guest."""
        ...

    def switch_on(self) -> None:
        """Boot the machine; a machine with power is no error."""
        ...

    def is_off(self) -> bool:
        """Whether the machine has no power."""
        ...


class _Before(NamedTuple):
    """The state of a machine just before its power is cut."""

    boot_id: str
    sizes: Mapping[str, int]


class MachinePower:
    """See `nemesis.hosts.Power`. Calls for different machines may come at the same time."""

    def __init__(
        self,
        switches: Mapping[int, PowerSwitch],
        machine: Callable[[int], RemoteMachine],
        journal: Journal,
    ) -> None:
        """`machine` returns a node's machine and raises UnknownNode."""
        self._power_switches = switches
        self._machine = machine
        self._journal = journal
        self._before: dict[int, _Before] = {}
        self._cut_ns: dict[int, int] = {}
        self._boots: dict[int, Boot] = {}

    def record(self, node: int) -> None:
        """Record in the journal how to switch a node's machine on, if it has a switch."""
        if switch := self._power_switches.get(node):
            reach = self._machine(node).connection.record
            self._journal.record(switch.kind, **switch.record, **reach)

    def cut(self, nodes: Sequence[int]) -> float:
        """See the protocol."""
        in_parallel(nodes, self._remember_state)
        for node in nodes:
            self._boots.pop(node, None)
        disconnect = {node: self._machine(node).power_lost() for node in nodes}
        try:
            moments = in_parallel(nodes, self._switch_off).values()
        finally:
            in_parallel(nodes, lambda node: disconnect[node]())
        return (max(moments) - min(moments)) / 1e6

    def is_off(self, node: int) -> bool:
        """See the protocol."""
        return self._power_switches[node].is_off()

    def restore(self, nodes: Sequence[int]) -> None:
        """See the protocol. Raises TargetError for a machine that does not boot."""
        in_parallel([node for node in nodes if not self._machine(node).agent.has_power], self._boot)

    def boot(self, node: int) -> Boot | None:
        """See the protocol."""
        return self._boots.get(node)

    def off(self) -> Sequence[int]:
        """Return the nodes whose machines lost power and have not got it back."""
        return [node for node in self._before if not self._machine(node).agent.has_power]

    def _remember_state(self, node: int) -> None:
        agent = self._machine(node).agent
        boot = agent.call(Session.boot)
        self._before[node] = _Before(boot.boot_id, agent.call(Disks.files, node))

    def _switch_off(self, node: int) -> int:
        self._cut_ns[node] = time.monotonic_ns()
        self._power_switches[node].switch_off()
        return time.monotonic_ns()

    def _boot(self, node: int) -> None:
        machine, before = self._machine(node), self._before[node]
        _switch_on(self._power_switches[node], lambda: machine.reconnect_after_boot(BOOT_TIMEOUT_S))
        now = machine.agent.call(Session.boot)
        since_cut_s = (time.monotonic_ns() - self._cut_ns[node]) / 1e9
        self._boots[node] = Boot(
            before=before.boot_id,
            after=now.boot_id,
            up_s=now.up_s,
            since_cut_s=since_cut_s,
            lost=files.lost(before.sizes, machine.agent.call(Disks.files, node)),
        )


def undo(switch: PowerSwitch, fields: Mapping[str, object]) -> str | None:
    """Switch on the machine that a journal's record names, and return when SSH reaches it, so that
    its other leftovers can be undone. Raises TargetError.
    """
    if not switch.is_off():
        return None
    with closing(recorded(fields)) as connection:
        log.warning(
            "%s has no power: it is switched on now, and has %.0f s to boot",
            connection.host.label,
            BOOT_TIMEOUT_S,
        )
        _switch_on(switch, lambda: connection.open_within(BOOT_TIMEOUT_S))
        return f"outage of {connection.host.label}"


def _switch_on(switch: PowerSwitch, enter: Callable[[], None]) -> None:
    """Boot a machine and call `enter`. If `enter` fails, switch the machine off again: kernels do
    hang during a boot, and the next attempt boots it anew.
    """
    switch.switch_on()
    try:
        enter()
    except TargetError:
        switch.switch_off()
        raise
