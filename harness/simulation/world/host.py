"""A machine of a simulated world: it boots programs, and they are paused, stopped, killed.

A program runs in an incarnation: an event loop, what its sockets and its disk let it see, its
tasks. `kill` ends it between two events, `crash` in the middle of one: from then on nothing of it
has an effect, `finally` blocks included, and no frame of it stays. What the disk kept is what the
next incarnation finds. The world's collector runs at every boot and kill.

A host that stands still (stopped by a signal, or waiting for its disk in the middle of an event) is
held: time goes on, and what comes for it waits, in order.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from harness.simulation.world.clocks import WallClock
from harness.simulation.world.loop import HostLoop, SimTask, bury, start
from harness.simulation.world.world import HostDead, World

if TYPE_CHECKING:
    from harness.simulation.world.disk import SimDisk
    from harness.simulation.world.network.network import Network

Mode = Literal["process", "power"]
"""How an incarnation ends: its kernel lives on and closes what it had open, or goes with it."""

Main = Callable[[], Coroutine[Any, Any, Any]]

_STOPPED = "stopped"
_STANDING = "standing still"


class Host:
    """See the module. `number` is nemesis' number of the machine."""

    def __init__(
        self,
        world: World,
        network: "Network",
        number: int,
        disk: "SimDisk | None" = None,
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
        """How the last program ended: 0, 1, or negative by a signal; None while one runs."""
        self._main: SimTask | None = None  # kept here: a loop's own references to tasks are weak
        self._holds: dict[str, None] = {}
        self._waits = 0
        network.attach(self)

    # -- programs

    def boot(self, main: Main) -> SimTask:
        """Start a program; it ends when `main` does, with 1 if that raised or returned anything."""
        assert self.loop is None, f"{self.name} runs already"
        self.world.collect()
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
        """Whether a program runs; a stopped one does."""
        return self.loop is not None

    def kill(self, mode: Mode = "process") -> None:
        """End the program, between two of its events; nothing happens without one."""
        loop = self.loop
        if mode == "power":
            self.powered = False
        if loop is not None:
            assert self.world.current is not loop, f"{self.name} may crash, not kill itself"
            self._end(loop, mode, -signal.SIGKILL)
        elif mode == "power" and self.disk is not None:
            self.disk.lose_power()

    def crash(self, mode: Mode = "process") -> NoReturn:
        """End the program in the middle of what it is doing: called from its own code."""
        loop = self.loop
        assert loop is not None
        loop.dead = True
        self.world.after_event.append(partial(self._end, loop, mode, -signal.SIGKILL))
        raise HostDead(self.name)

    def _end(self, loop: HostLoop, mode: Mode, exit_code: int) -> None:
        if self.loop is not loop:
            return  # it has ended already
        self._note(f"end by {mode} with {exit_code}")
        tasks = loop.live_tasks()  # kept here: some are held by nothing but their next event
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
        bury(loop, tasks)
        del tasks
        self.world.collect()
        self.world.look()

    def terminate(self) -> None:
        """SIGTERM: the program ends in order if it handles that, at once otherwise."""
        if self.loop is not None and not self.loop.deliver(signal.SIGTERM):
            self._end(self.loop, "process", -signal.SIGTERM)

    # -- standing still

    def pause(self) -> None:
        """SIGSTOP, until `resume`; again is no error."""
        self.hold(_STOPPED)

    def resume(self) -> None:
        """SIGCONT."""
        self.release(_STOPPED)

    @property
    def state(self) -> str:
        """The letter that /proc would show: S, T, D, or nothing."""
        if self.loop is None:
            return ""
        return "T" if _STOPPED in self._holds else "D" if self._holds else "S"

    def hold(self, why: str) -> None:
        """Keep the program's events back until `release`, for this and for every other reason."""
        if self.loop is not None:
            self._holds[why] = None
            self.world.hold(self.loop)

    def release(self, why: str) -> None:
        """That reason is gone."""
        if self.loop is not None and why in self._holds:
            del self._holds[why]
            if not self._holds:
                self.world.release(self.loop)

    def stand_still(self, duration_ns: int) -> None:
        """The program waits in the middle of an event: what follows of it has no effect yet."""
        loop = self.loop
        if loop is None:
            return
        self._waits += 1
        why = f"{_STANDING} {self._waits}"
        self.hold(why)
        self.world.after(duration_ns, self._go_on, loop, why)

    def _go_on(self, loop: HostLoop, why: str) -> None:
        if self.loop is loop:
            self.release(why)

    def _note(self, what: str) -> None:
        self.world.trace.noted(self.world.now_ns, self.number + 1, what, self.incarnations)
        if self.network.observer is not None:
            self.network.observer.noted(self, what)
