"""Small worlds for tests: a few bare hosts, an echo service, and programs to run."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.simulation.world.disk import DiskSettings, SimDisk
from harness.simulation.world.host import Host, Main
from harness.simulation.world.network.link import NetworkSettings
from harness.simulation.world.network.link_faults import SimLinks
from harness.simulation.world.network.network import Network
from harness.simulation.world.world import World

ECHO = 7


@dataclass(slots=True)
class Bare:
    """A world with hosts 0 to n, each with a disk, on one network."""

    world: World
    network: Network
    links: SimLinks
    hosts: list[Host]
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    """Keeps connections open until the world ends: a killed program closes nothing."""

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the service of host 1."""
        reader, writer = await asyncio.open_connection(self.hosts[1].address, ECHO)
        self.writers.append(writer)
        return reader, writer

    def end(self) -> None:
        """Cut the power of all hosts, and end the world."""
        for host in self.hosts:
            host.kill("power")
        self.writers.clear()
        self.world.end()

    def run(self, host: int, main: Main, within_s: float = 5000) -> Any:
        """Boot a program, let time pass until it ends, and return its result."""
        return self.world.run_until(self.hosts[host].boot(main), within_s)


MakeBare = Callable[..., Bare]


def bare(
    seed: int = 1,
    hosts: int = 3,
    network: NetworkSettings | None = None,
    disk: DiskSettings | None = None,
) -> Bare:
    """See Bare."""
    world = World(seed)
    net = Network(world, network)
    machines = [
        Host(world, net, number, SimDisk(world, str(number), disk)) for number in range(hosts)
    ]
    return Bare(world, net, SimLinks(net), machines)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send back all bytes until the peer closes."""
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


async def echo_server() -> None:
    """Serve `echo` for ever."""
    server = await asyncio.start_server(echo, "0.0.0.0", ECHO)
    await server.serve_forever()
