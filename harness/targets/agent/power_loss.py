"""Calls to the agent of a machine that may lose its power.

While the machine has no power, calls about processes and packets have a known answer: there are
none. Faults of the network and the clock that begin or end meanwhile are recorded and made after
the boot. All other calls wait for the boot, as calls wait while a connection is lost.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from harness.targets.agent.calls_in_force import Call, CallsInForce
from harness.targets.agent.client import AgentClient
from harness.targets.agent.machine import Machine
from harness.targets.base import TargetError
from nemesis.hosts import Clocks, Links

P = ParamSpec("P")
R = TypeVar("R")

WITHOUT_POWER: Final[Mapping[Callable[..., Any], Any]] = {
    Machine.is_running: False,
    Machine.state: "",
    Machine.exit_code: None,
    Machine.take_unexpected_exits: (),
    Machine.set_command: None,
    Links.block: None,
    Links.unblock: None,
    Links.dropped: None,
    Links.dropped_in_total: 0,
    Links.requests_arrived: None,
    Links.prepare: None,
    Links.degrade: None,
    Links.restore: None,
    Links.counters: None,
    Links.reset: 0,
    Links.connections_reset: 0,
    Clocks.skew: None,
    Clocks.unskew: None,
    Clocks.read: None,
}
"""The results of calls that need no power."""
POWER_TIMEOUT_S: Final = 1_500.0
"""How long the other calls wait for power."""


class PowerAwareClient:
    """Calls to a machine's agent that survive losses of its power. Any thread may call."""

    def __init__(self, client: AgentClient, label: str) -> None:
        self._client: AgentClient | None = client
        self._label = label
        self._in_force = CallsInForce()
        self._changed = threading.Condition()

    def call(
        self, method: Callable[Concatenate[Any, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call a method on the machine, see AgentClient. Raises TargetError without power."""
        with self._changed:
            self._in_force.update(Call(method, args, kwargs))
            if self._client is None and method in WITHOUT_POWER:
                return WITHOUT_POWER[method]  # type: ignore[no-any-return]
            if not self._changed.wait_for(lambda: self._client is not None, POWER_TIMEOUT_S):
                raise TargetError(f"{self._label} has had no power for {POWER_TIMEOUT_S:.0f} s")
            assert self._client is not None
            client = self._client
        try:
            return client.call(method, *args, **kwargs)
        except TargetError:
            if self._client is client or method not in WITHOUT_POWER:
                raise
            return WITHOUT_POWER[method]  # type: ignore[no-any-return]

    @property
    def has_power(self) -> bool:
        """Whether the machine has an agent that can be called."""
        return self._client is not None

    def to_local_ns(self, there_ns: int) -> int:
        """See AgentClient; for the machine's present boot."""
        return there_ns if self._client is None else self._client.to_local_ns(there_ns)

    def power_lost(self) -> AgentClient | None:
        """Record that the machine loses its power; return its client, which must be closed."""
        with self._changed:
            client, self._client = self._client, None
        return client

    def power_restored(self, client: AgentClient) -> None:
        """Use `client`, which calls the agent after the boot; first make the faults in force again.

        Raises what the machine raises; then the machine still counts as without power.
        """
        with self._changed:
            for method, args, kwargs in self._in_force.calls():
                client.call(method, *args, **kwargs)
            self._client = client
            self._changed.notify_all()

    def close(self) -> None:
        """Close the connection without a message to the agent."""
        if (client := self._client) is not None:
            client.close()
