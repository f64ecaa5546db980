"""The power of an inventory's machines, where something of ours can cut it. See
`nemesis.hosts.Power`.

What gives a machine its power back is in the journal before anything is left there: nothing on a
machine without power can heal it, not even the dead-man's timer. Who took it off does not matter.
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
from harness.targets.ssh.connection import recorded
from harness.targets.ssh.machine import RemoteMachine
from harness.targets.ssh.parts import together
from nemesis.hosts import Boot, Disks

BOOT_TIMEOUT_S: Final = 600.0

log = logging.getLogger(__name__)


class Plug(Protocol):
    """What gives one machine its power. Every call returns when that is so, and raises
    TargetError.
    """

    kind: str
    """Of the journal's records, which are undone by it."""

    @property
    def record(self) -> Mapping[str, object]:
        """What the journal says of it."""
        ...

    def pull(self) -> None:
        """Take the power away at once; nobody on the machine is told."""
        ...

    def put_in(self) -> None:
        """Let it boot; nothing happens where it has power."""
        ...

    def is_out(self) -> bool:
        """Whether the machine has no power."""
        ...


class _Before(NamedTuple):
    """What a machine was just before its power was cut."""

    boot_id: str
    sizes: Mapping[str, int]


class MachinePower:
    """See `nemesis.hosts.Power`. Calls about different machines may come at the same time."""

    def __init__(
        self, plugs: Mapping[int, Plug], machine: Callable[[int], RemoteMachine], journal: Journal
    ) -> None:
        """`machine` gives a node's, and raises for who is no node."""
        self._plugs = plugs
        self._machine = machine
        self._journal = journal
        self._before: dict[int, _Before] = {}
        self._cut_ns: dict[int, int] = {}
        self._boots: dict[int, Boot] = {}

    def record(self, node: int) -> None:
        """Let the journal know how a node's machine, if it has a plug, gets its power back."""
        if plug := self._plugs.get(node):
            reach = self._machine(node).connection.record
            self._journal.record(plug.kind, **plug.record, **reach)

    def cut(self, nodes: Sequence[int]) -> float:
        """See the protocol."""
        together(nodes, self._look)
        for node in nodes:
            self._boots.pop(node, None)
        let_go = {node: self._machine(node).lose_power() for node in nodes}
        try:
            moments = together(nodes, self._pull).values()
        finally:
            together(nodes, lambda node: let_go[node]())
        return (max(moments) - min(moments)) / 1e6

    def is_off(self, node: int) -> bool:
        """See the protocol."""
        return self._plugs[node].is_out()

    def restore(self, nodes: Sequence[int]) -> None:
        """See the protocol. Raises TargetError for a machine that does not come back."""
        together([node for node in nodes if not self._machine(node).agent.has_power], self._boot)

    def boot(self, node: int) -> Boot | None:
        """See the protocol."""
        return self._boots.get(node)

    def off(self) -> Sequence[int]:
        """Those that lost their power and have not got it back."""
        return [node for node in self._before if not self._machine(node).agent.has_power]

    def _look(self, node: int) -> None:
        agent = self._machine(node).agent
        boot = agent.call(Session.boot)
        self._before[node] = _Before(boot.boot_id, agent.call(Disks.files, node))

    def _pull(self, node: int) -> int:
        self._cut_ns[node] = time.monotonic_ns()
        self._plugs[node].pull()
        return time.monotonic_ns()

    def _boot(self, node: int) -> None:
        machine, before = self._machine(node), self._before[node]
        _switch_on(self._plugs[node], lambda: machine.come_back(BOOT_TIMEOUT_S))
        now = machine.agent.call(Session.boot)
        since_cut_s = (time.monotonic_ns() - self._cut_ns[node]) / 1e9
        self._boots[node] = Boot(
            before=before.boot_id,
            after=now.boot_id,
            up_s=now.up_s,
            since_cut_s=since_cut_s,
            lost=files.lost(before.sizes, machine.agent.call(Disks.files, node)),
        )


def undo(plug: Plug, fields: Mapping[str, object]) -> str | None:
    """Give a machine its power back that a journal's record names; returns when it can be reached,
    so that what else is left there can be undone. Raises TargetError.
    """
    if not plug.is_out():
        return None
    with closing(recorded(fields)) as connection:
        log.warning(
            "%s has no power: it is switched on, and has %.0f s to boot",
            connection.host.label,
            BOOT_TIMEOUT_S,
        )
        _switch_on(plug, lambda: connection.open_within(BOOT_TIMEOUT_S))
        return f"outage of {connection.host.label}"


def _switch_on(plug: Plug, enter: Callable[[], None]) -> None:
    """Let a machine boot, and `enter` it. One that lets nobody in is taken off again: kernels do
    hang at their start, and the next attempt boots it anew.
    """
    plug.put_in()
    try:
        enter()
    except TargetError:
        plug.pull()
        raise
