"""One broker with all roles in a simulated world, on a disk of the caller's.

For scenarios of `tests.tools.storage_crashes`: when the disk dies, the broker ends in the middle of
what it does, and its clients live on for a moment. So they get the answers that it had sent.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar, cast

from harness.simulation.world.cluster import SimCluster
from harness.simulation.world.guard import guard
from harness.simulation.world.world import HostDead, TooLate, World
from harness.systems.node_roles import Layout
from nodes.__main__ import serve
from nodes.config import load_config
from nodes.server.node import Node
from nodes.storage.disk import Disk, File
from tests.tools.storage_crashes import Crashed, CrashingDisk

T = TypeVar("T")

NODE: Final = 1
STEP_S: Final = 0.01
"""Longer than an answer is under way."""
SYNC_S: Final = 0.002


class SlowDisk:
    """A disk whose syncs take a while. What is sent meanwhile arrives, also if the disk dies."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    async def sync(self, target: File | str) -> None:
        """See `Disk`."""
        await asyncio.sleep(SYNC_S)
        await self._disk.sync(target)


class SimulatedBroker:
    """See the module. `begin_ns` is the world's time at its start, and the seed of its chance."""

    def __init__(self, disk: Disk, properties: Mapping[str, str], *, begin_ns: int) -> None:
        self.world = World(begin_ns)
        self.world.now_ns = begin_ns
        self.cluster = SimCluster(self.world, Layout.combined([NODE]), overrides=properties)
        self.node: Node | None = None
        """The broker, for looking at it."""
        self._host = self.cluster.nodes[NODE]
        self._disk = cast(Disk, SlowDisk(disk))
        self._dead = False
        if isinstance(disk, CrashingDisk):
            disk.on_death = self._die

    def _die(self) -> None:
        self._dead = True
        with contextlib.suppress(HostDead):  # its code goes on to raise Crashed
            self._host.crash()

    def _boot(self) -> None:
        config, _ = load_config(self.cluster.properties[NODE])
        rng = self.world.stream("node", NODE)
        self._host.boot(
            lambda: serve(
                config,
                self._disk,
                rng=rng,
                wall_clock_ms=self._host.clock.ms,
                on_created=self._created,
            )
        )

    def _created(self, node: Node) -> None:
        self.node = node

    def run(self, main: Callable[[], Coroutine[Any, Any, T]], *, within_s: float) -> T:
        """Start the broker, let a client run to its end, and end the broker as a kill does.

        Raises Crashed if the broker's disk died, TooLate, and what the client raises.
        """
        with guard(self.world):
            try:
                self._boot()
                task = self.cluster.run_client(main)
                until_ns = self.world.now_ns + int(within_s * 1e9)
                while not task.done() and not self._dead:
                    if self.world.now_ns > until_ns:
                        raise TooLate(f"the client is not done after {within_s:g} s")
                    self.world.run_for(STEP_S)
                self.world.run_for(STEP_S)
            finally:
                self.cluster.close()
        if self._dead:
            raise Crashed("the broker's disk", first=False)
        assert not self.world.troubles, self.world.troubles
        result: T = task.result()
        return result
