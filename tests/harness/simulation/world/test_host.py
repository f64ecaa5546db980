"""Machines of a simulated world: boots, kills and stops. A dead program has no effect."""

import asyncio
import contextlib
import gc
from typing import Any

import pytest

from harness.simulation.world.clocks import EPOCH_MS
from tests.support.simulation.worlds import Bare, MakeBare, echo_server
from tests.tools.simulation_restarts import cluster_cycles, cycles

NODE = 1


def later(world: Bare, seconds: float, do: Any, *arguments: Any) -> None:
    world.world.after(int(seconds * 1e9), do, *arguments)


@pytest.mark.parametrize("mode", ["process", "power", "crash"])
def test_dead_program_has_no_effect(make: MakeBare, mode: Any) -> None:
    """`finally` blocks run while frames are unwound, but their calls do nothing."""
    world = make()
    host = world.hosts[NODE]
    assert host.disk is not None
    unwound: list[str] = []

    async def victim(name: str) -> None:
        assert host.loop is not None
        assert host.disk is not None
        disk = host.disk.mount(host.loop)
        file = disk.open(name, create=True)
        _, writer = await asyncio.open_connection(world.hosts[2].address, 7)
        try:
            await asyncio.sleep(1000)
        finally:
            unwound.append(name)
            with contextlib.suppress(Exception):
                writer.write(b"last words")
            with contextlib.suppress(Exception):
                file.append(b"last words")
            await asyncio.sleep(1)
            unwound.append("went on")

    async def main() -> None:
        tasks = [asyncio.ensure_future(victim(name)) for name in "abc"]
        if mode == "crash":
            await asyncio.sleep(5)
            host.crash()
        await asyncio.gather(*tasks)

    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            heard.append(await reader.read(-1))
        writer.close()

    async def server() -> None:
        await (await asyncio.start_server(listen, "0.0.0.0", 7)).serve_forever()

    world.hosts[2].boot(server)
    world.world.run_for(0.1)
    host.boot(main)
    if mode != "crash":
        later(world, 5, host.kill, mode)
    world.world.run_for(2000)
    assert sorted(unwound) == ["a", "b", "c"]
    assert b"".join(heard) == b""
    assert all(size == 0 for _, size in host.disk.content.files())
    assert host.exit_code == -9
    assert host.loop is None
    assert not world.world.troubles


def test_program_may_be_killed_before_its_first_step(make: MakeBare) -> None:
    """No exception is reported."""
    world = make()
    world.hosts[NODE].boot(echo_server)
    world.hosts[NODE].kill()
    world.world.run_for(1)
    assert not world.world.troubles


def test_exit_code_tells_how_the_program_ended(make: MakeBare) -> None:
    """0 by itself, 1 after an error; by SIGTERM in order if the program handles it."""
    world = make()
    host = world.hosts[NODE]

    async def fine() -> None:
        await asyncio.sleep(1)

    async def failed() -> str:
        return "a reason"

    async def raised() -> None:
        raise ValueError("broken")

    async def polite() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(15, stop.set)
        await stop.wait()

    codes = []
    for main in (fine, failed, raised):
        task = host.boot(main)
        world.world.run_for(2)
        assert task.done()
        codes.append(host.exit_code)
        task.exception()
    for main in (polite, echo_server):
        host.boot(main)
        world.world.run_for(1)
        assert host.exit_code is None
        host.terminate()
        world.world.run_for(1)
        codes.append(host.exit_code)
    assert codes == [0, 1, 1, 0, -15]


def test_resumed_process_handles_waiting_events_in_order(make: MakeBare) -> None:
    """Time continues meanwhile."""
    world = make()
    host = world.hosts[NODE]
    fired: list[tuple[float, float]] = []

    def note(at: float) -> None:
        fired.append((at, asyncio.get_running_loop().time()))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for due in (1.0, 3.0, 2.0):
            at = loop.time() + due
            loop.call_at(at, note, at)
        await echo_server()

    async def client() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        reader, writer = await world.connect()  # the kernel of a stopped process still accepts
        writer.write(b"ping")
        assert await reader.readexactly(4) == b"ping"
        return loop.time() - began

    host.boot(main)
    later(world, 0.5, host.pause)
    later(world, 10.5, host.resume)
    world.world.run_for(1)
    assert host.state == "T"
    assert 9.5 <= world.run(0, client) < 9.6
    assert host.state == "S"
    assert [at for at, _ in fired] == sorted(at for at, _ in fired)
    assert all(when == pytest.approx(11.5) for _, when in fired)


def test_restart_has_new_tasks_and_sockets_and_the_old_disk(make: MakeBare) -> None:
    """Its random numbers are new too."""
    world = make()
    host = world.hosts[NODE]

    async def main() -> int:
        assert host.loop is not None
        assert host.disk is not None
        file = host.disk.mount(host.loop).open("log", create=True)
        file.append(b"x")
        return 0 * await asyncio.sleep(1, file.size())

    for turn in range(3):
        world.run(NODE, main)
        assert host.incarnations == turn + 1
    assert host.disk is not None
    assert host.disk.content.read("log") == b"xxx"


def test_skewed_wall_clock_does_not_change_loop_time(make: MakeBare) -> None:
    """Layers add up, and a drift continues."""
    world = make()
    clock = world.hosts[NODE].clock
    assert clock.ms() == EPOCH_MS + 1000
    clock.skew("jump", -5000)
    clock.skew("more", 100)
    assert clock.ahead_ms == -4900
    clock.drift(1000)
    world.world.run_for(10)
    assert clock.ahead_ms == pytest.approx(-4890)
    clock.drift(0)
    clock.unskew("jump")
    world.world.run_for(10)
    assert clock.ms() == EPOCH_MS + 21_000 + 110
    assert world.world.now_ns == 21 * 10**9


@pytest.mark.slow
def test_restarts_under_traffic_leak_nothing(make: MakeBare) -> None:
    """No task, timer, connection or object."""
    counts = cycles(1000, sample_every=250)
    first, last = counts[0], counts[-1]
    assert last.timers <= first.timers + 20
    assert last.sockets <= first.sockets + 10
    assert last.tasks <= first.tasks + 10
    assert last.objects <= first.objects * 1.02 + 500
    gc.collect()


@pytest.mark.slow
def test_restarts_of_real_nodes_leak_nothing() -> None:
    """The same of real nodes and their client; connections come and go, and none stays."""
    counts = cluster_cycles(100, sample_every=10)
    first, last = counts[0], counts[-1]
    assert {count.tasks for count in counts} == {first.tasks}
    assert last.timers <= first.timers + 5
    assert max(count.sockets for count in counts) <= 60
    assert last.objects <= first.objects * 1.1
