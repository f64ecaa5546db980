"""A machine of a simulated world: it boots programs, which are paused, stopped and killed.

A program runs in an incarnation: an event loop, its tasks, and its view of the network and the
disk. `kill` ends the program between two events, `crash` in the middle of one. From then on no code
of the incarnation has an effect, `finally` blocks included, and none of its frames stays. The next
incarnation finds what the disk kept. The world collects young garbage at each boot and
kill.

A host is held while it is stopped by a signal, or blocked on its disk in the middle of an event:
time continues, and events for the host wait, in order.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Literal, NoReturn

from harness.simulation.world.clocks import WallClock
from harness.simulation.world.disk import SimDisk
from harness.simulation.world.loop import HostLoop, SimTask, start, unwind_tasks
from harness.simulation.world.network.network import Network
from harness.simulation.world.world import HostDead, World

Mode = Literal["process", "power"]
"""How an incarnation ends: "process" (the kernel lives and closes the open sockets) or "power"."""

Main = Callable[[], Coroutine[Any, Any, Any]]

_STOPPED = "stopped"
_BLOCKED = "blocked"


class Host:
    """See the module. `number` is the machine's number in nemesis."""

    def __init__(
        self,
        world: World,
        network: Network,
        number: int,
        disk: SimDisk | None = None,
        *,
        name: str = "",
    ) -> None:
        self.world = world
        self.network = network
        self.number = number
        self.name = name or (f"node-{number}" if number else "clients")
        self.address = f"198.18.0.{number + 1}"
        self.disk = disk
        self.clock = WallClock(world)
        self.loop: HostLoop | None = None
        self.powered = True
        self.incarnations = 0
        self.exit_code: int | None = None
        """The exit code of the last program: 0, 1, or minus a signal; None while a program runs."""
        self._main: SimTask | None = None  # keeps the task alive: the loop's references are weak
        self._holds: dict[str, None] = {}
        self._waits = 0
        network.attach(self)

    # -- programs

    def boot(self, main: Main) -> SimTask:
        """Start a program. It ends with `main`; its exit code is 1 if `main` raised or returned
        something.
        """
        assert self.loop is None, f"{self.name} is running already"
        self.world.collect_young()
        self.incarnations += 1
        self.powered = True
        self.exit_code = None
        loop = self.loop = HostLoop(self.world, self)  # type: ignore[abstract]
        self._note("boot")
        task = self._main = start(loop, main(), f"{self.name}-main")
        task.add_done_callback(self._main_ended, context=loop._context)
        return task

    def _main_ended(self, task: "asyncio.Task[Any]") -> None:
        loop = self.loop
        assert loop is not None
        failed = task.cancelled() or task.exception() is not None or bool(task.result())
        loop.dead = True
        self.world.after_event.append(partial(self._end, loop, "process", int(failed)))

    @property
    def running(self) -> bool:
        """Whether a program runs, stopped or not."""
        return self.loop is not None

    def kill(self, mode: Mode = "process") -> None:
        """End the program between two of its events; without a program nothing happens."""
        loop = self.loop
        if mode == "power":
            self.powered = False
        if loop is not None:
            assert self.world.current is not loop, f"{self.name} may call crash, not kill"
            self._end(loop, mode, -signal.SIGKILL)
        elif mode == "power" and self.disk is not None:
            self.disk.lose_power()

    def crash(self, mode: Mode = "process") -> NoReturn:
        """End the program in the middle of an event; its own code calls this."""
        loop = self.loop
        assert loop is not None
        loop.dead = True
        self.world.after_event.append(partial(self._end, loop, mode, -signal.SIGKILL))
        raise HostDead(self.name)

    def _end(self, loop: HostLoop, mode: Mode, exit_code: int) -> None:
        if self.loop is not loop:
            return  # it has ended already
        self._note(f"end by {mode} with {exit_code}")
        tasks = loop.live_tasks()  # keeps tasks alive that only their next event refers to
        self.loop = self._main = None
        loop.dead = True
        self.exit_code = exit_code
        if mode == "power":
            self.powered = False
            self.network.power_lost(loop)
        else:
            self.network.process_died(loop)
        self.world.forget(loop)
        self._holds.clear()
        if self.disk is not None:
            self.disk.forget(loop)
            if mode == "power":
                self.disk.lose_power()
        unwind_tasks(loop, tasks)
        del tasks
        self.world.collect_young()
        self.world.recheck()

    def terminate(self) -> None:
        """Send SIGTERM: a program without a handler ends at once."""
        if self.loop is not None and not self.loop.deliver(signal.SIGTERM):
            self._end(self.loop, "process", -signal.SIGTERM)

    # -- held back

    def pause(self) -> None:
        """Send SIGSTOP; a second call changes nothing."""
        self.hold(_STOPPED)

    def resume(self) -> None:
        """Send SIGCONT."""
        self.release(_STOPPED)

    @property
    def state(self) -> str:
        """The state letter of /proc: S, T or D; empty without a program."""
        if self.loop is None:
            return ""
        return "T" if _STOPPED in self._holds else "D" if self._holds else "S"

    def hold(self, why: str) -> None:
        """Hold back the program's events until `release` is called for this reason and all other
        reasons.
        """
        if self.loop is not None:
            self._holds[why] = None
            self.world.hold(self.loop)

    def release(self, why: str) -> None:
        """Remove one reason for holding events back."""
        if self.loop is not None and why in self._holds:
            del self._holds[why]
            if not self._holds:
                self.world.release(self.loop)

    def block_for(self, duration_ns: int) -> None:
        """Block the program in the middle of an event; what follows in the event has no
        effect yet.
        """
        loop = self.loop
        if loop is None:
            return
        self._waits += 1
        why = f"{_BLOCKED} {self._waits}"
        self.hold(why)
        self.world.after(duration_ns, self._unblock, loop, why)

    def _unblock(self, loop: HostLoop, why: str) -> None:
        if self.loop is loop:
            self.release(why)

    def _note(self, what: str) -> None:
        self.world.trace.noted(self.world.now_ns, self.number + 1, what, self.incarnations)
        if self.network.observer is not None:
            self.network.observer.noted(self, what)
