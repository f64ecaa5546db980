"""Agents of machines that may lose their power: calls that know what is there without one.

While the machine has no power, what is asked of processes and packets has an answer (there are
none), what is put in force or ended in the network or the clock is kept for the boot, and every
other call waits for it, as calls wait while a connection is lost.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from harness.targets.agent.client import AgentClient
from harness.targets.agent.in_force import Call, Standing
from harness.targets.agent.machine import Machine
from harness.targets.base import TargetError
from nemesis.hosts import Clocks, Links

P = ParamSpec("P")
R = TypeVar("R")

WITHOUT_POWER: Final[Mapping[Callable[..., Any], Any]] = {
    Machine.is_running: False,
    Machine.state: "",
    Machine.exit_code: None,
    Machine.take_deaths: (),
    Machine.set_command: None,
    Links.block: None,
    Links.unblock: None,
    Links.dropped: None,
    Links.dropped_in_turns: 0,
    Links.asked: None,
    Links.prepare: None,
    Links.degrade: None,
    Links.restore: None,
    Links.tampered: None,
    Links.reset: 0,
    Links.ended: 0,
    Clocks.skew: None,
    Clocks.unskew: None,
    Clocks.shown: None,
}
"""What calls return that need no power."""
POWER_TIMEOUT_S: Final = 1_500.0
"""How long the others wait for it."""


class LastingAgent:
    """Calls to a machine's agent, through losses of its power. Any thread may call."""

    def __init__(self, client: AgentClient, label: str) -> None:
        self._client: AgentClient | None = client
        self._label = label
        self._standing = Standing()
        self._changed = threading.Condition()

    def call(
        self, method: Callable[Concatenate[Any, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Have the machine do it, see AgentClient. Raises TargetError when no power comes back."""
        with self._changed:
            self._standing.note(Call(method, args, kwargs))
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
        """Whether there is an agent to call."""
        return self._client is not None

    def here_ns(self, there_ns: int) -> int:
        """See AgentClient; of the machine's present boot."""
        return there_ns if self._client is None else self._client.here_ns(there_ns)

    def lose_power(self) -> AgentClient | None:
        """From now on there is none; the client that is of no use any more, to be closed."""
        with self._changed:
            client, self._client = self._client, None
        return client

    def have_power(self, client: AgentClient) -> None:
        """The machine has booted and `client` reaches its new agent: make again what was in force
        there. Raises what the machine raises; then it still has none.
        """
        with self._changed:
            for method, args, kwargs in self._standing.calls():
                client.call(method, *args, **kwargs)
            self._client = client
            self._changed.notify_all()

    def close(self) -> None:
        """Let go; the agent is not told."""
        if (client := self._client) is not None:
            client.close()
