"""Random faults on a simulated cluster of real nodes under load: is an acknowledged record lost?

    python -m tests.tools.simulation_storm --seeds 0..100

Kills, cut links, stopped processes, frozen disks, bad links, resets and clock jumps, at random; no
invariant may break. Then all faults are healed, the cluster must converge, and all records
acknowledged with acks=all must be readable. Only one node at a time loses power, because nothing is
flushed before it is acknowledged here.
"""

import argparse
import asyncio
import time

from harness.simulation.invariants import Invariants
from harness.simulation.invariants.convergence import converge
from harness.simulation.world.cluster import SimCluster
from harness.simulation.world.guard import guard
from harness.simulation.world.network.link_faults import SimLinks
from harness.simulation.world.world import SimulationError, World
from harness.systems.node_roles import Layout
from harness.zoo.schedules.load import Client, make_topics
from nemesis.hosts import Cut, LinkQuality

NODES = (1, 2, 3)
FAULTS = ("kill", "power", "pause", "cut", "freeze", "bad", "reset", "clock")


class Storm:
    """One run of one seed."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.cluster = SimCluster(self.world, Layout.combined(NODES))
        self.invariants = Invariants(self.cluster)
        self.links = SimLinks(self.cluster.network)
        self.client = Client(self.cluster)
        self.made: list[str] = []
        self._rng = self.world.stream("storm")

    def run(self, seconds: float) -> set[int]:
        """Return the acknowledged values that cannot be read any more. Raises SimulationError, such
        as InvariantBroken and NotConverged.
        """
        with guard(self.world):
            try:
                self.cluster.start()
                missing = self.world.run_until(
                    self.cluster.run_client(lambda: self._main(seconds)), seconds + 600
                )
            finally:
                self.cluster.close()
        assert isinstance(missing, set) or missing is None
        return missing or set()

    async def _main(self, seconds: float) -> set[int]:
        await make_topics(self.cluster, {"t": 1})
        sending = [asyncio.ensure_future(self._send()) for _ in range(3)]
        storming = asyncio.ensure_future(self._storm())
        await asyncio.sleep(seconds)
        for task in [*sending, storming]:
            task.cancel()
        await asyncio.gather(*sending, storming, return_exceptions=True)
        self._heal()
        await converge(self.invariants)
        read = await self.client.read("t", 0)
        return set(self.client.acked.get(("t", 0), ())) - set(read)

    async def _send(self) -> None:
        while True:
            await self.client.send("t", 0, -1)
            await asyncio.sleep(0.05)

    async def _storm(self) -> None:
        rng = self._rng
        while True:
            await asyncio.sleep(rng.uniform(0.2, 3))
            kind, node = rng.choice(FAULTS), rng.choice(NODES)
            self.made.append(f"{self.world.now_ns / 1e9:.3f} {kind} {node}")
            self._break(kind, node)
            await asyncio.sleep(rng.uniform(0.1, 6))
            if rng.random() < 0.7 or kind == "power":
                self._heal()
            if kind == "power":  # what it lost must be back before another one loses something
                await asyncio.sleep(8)

    def _break(self, kind: str, node: int) -> None:
        host, rng = self.cluster.nodes[node], self._rng
        others = [other for other in (0, *NODES) if other != node]
        match kind:
            case "kill":
                host.kill()
            case "power":
                self._heal()
                host.kill("power")
            case "pause":
                host.pause()
            case "cut":
                for other in others:
                    ways = [Cut(node, other), Cut(other, node)]
                    self.links.block(*rng.sample(ways, rng.randint(1, 2)))
            case "freeze":
                assert host.disk is not None
                host.disk.freeze()
            case "bad":
                quality = LinkQuality(delay_ms=rng.uniform(1, 300), jitter_ms=20, lost=0.05)
                self.links.degrade([(node, other) for other in others], quality, "storm")
            case "reset":
                self.links.reset([(node, other) for other in others], "storm")
            case "clock":
                host.clock.skew("storm", rng.uniform(-1e7, 1e7))

    def _heal(self) -> None:
        for node, host in self.cluster.nodes.items():
            assert host.disk is not None
            host.disk.thaw()
            host.resume()
            host.clock.unskew("storm")
            for other in (0, *NODES):
                self.links.unblock(Cut(node, other), Cut(other, node))
                self.links.restore([(node, other), (other, node)], "storm")
            if not host.running:
                self.cluster.start(node)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0..20")
    parser.add_argument("--seconds", type=float, default=60)
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("..")
    for seed in range(int(first), int(last or first) + 1):
        began = time.process_time()
        storm = Storm(seed)
        try:
            missing = storm.run(arguments.seconds)
        except SimulationError as error:
            print(f"seed {seed}: {type(error).__name__}: {error}; {storm.made[-3:]}", flush=True)
            continue
        took = time.process_time() - began
        acked = len(storm.client.acked.get(("t", 0), ()))
        print(
            f"seed {seed}: {len(storm.made)} faults, {acked} acknowledged, {storm.client.failed} "
            f"not; {'LOST ' + str(sorted(missing)[:5]) if missing else 'none lost'}; "
            f"{storm.world.now_ns / 1e9 / took:.0f} simulated s per CPU s; "
            f"{storm.world.trace.digest()}; {storm.world.troubles[:2] or 'no troubles'}",
            flush=True,
        )


if __name__ == "__main__":
    main()
