"""Sends malice to a real node, and watches what becomes of it and of a client that behaves.

    python -m tests.tools.wire_fuzz --frames 1000000 --seed 7

One node in a process of its own, attacked on both its listeners over many connections. All the
while one client behaves, over a connection that must stay, and gets the right answers: it writes
and reads, is a member of a group, commits offsets, and does so in transactions. In the end the node
must live, its log have at most one line for each bad connection, and no traceback. Every version of
every api answers a hostile request or closes the connection. The descriptors of all connections
must be closed, and the coordinators must load their logs after a restart.

Its memory must be flat: the first third of the run may make codecs, pools and arenas; after it, the
medians of the second and the last third are compared. It is looked at only while there is no topic
that the frames have rightly created (of a thousand partitions, say; others of them delete it). What
they left in the end, and in the metadata log, is reported beside.

On the controllers' listener the quorum's own requests are sent broken only: whoever may speak there
is trusted with the epoch, as in Kafka.
"""

import argparse
import asyncio
import contextlib
import random
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from kio.index import load_request_schema

from nodes.wire.codec import encode_request
from nodes.wire.errors import ChannelError
from nodes.wire.versions import fill
from tests.support.nodes.calm_client import Broken, Calm
from tests.support.nodes.cluster import free_ports
from tests.support.nodes.hostile_frames import Malice

NODE_ID = 77
ATTACKERS = 8
QUORUM_APIS = frozenset({1, 52, 53, 54, 59, 80, 81, 82})
PATIENCE_S = 60.0
CALM_PAUSE_S = 0.02
ROUNDS_A_SAMPLE = 5
CALM_TOPICS = 3
"""The calm client's, and the two of the coordinators."""
WAITING_APIS = frozenset({1, 11, 14})
"""Fetch, JoinGroup and SyncGroup may rightly wait as long as the request says."""
PING = encode_request(fill(load_request_schema(18, 0)), 8, "ping")
"""ApiVersions: an answer, also where the request before it has none (acks=0)."""
SETTLED_S = 0.5
DESCRIPTORS_BESIDES = 100
"""Of logs that were created meanwhile, and of the calm client's connection."""
MEMORY_GROWTH_KB = 128 << 10
"""From the first tenth to the end: codecs are made for every version of every api."""
LATE_GROWTH_KB = 6 << 10
"""From the second third to the last, of medians: the allocator's own ups and downs."""
JUDGED_FRAMES = 600_000
"""Of shorter runs, the first third is no warm-up."""
LINES_BESIDES = 500
"""Lines that the node may log for reasons of its own."""


@dataclass
class Result:
    """Figures of a run; times in seconds, memory in KB."""

    frames: int = 0
    connections: int = 0
    rounds: int = 0
    slowest_s: float = 0.0
    memory_kb: list[int] = field(default_factory=list)
    samples: list[tuple[int, int]] = field(default_factory=list)
    """Frames sent and memory in KB, at times when only the calm client's topic existed."""
    log_lines: int = 0
    topics: int = 0
    metadata_records: int = 0

    def late_growth_kb(self) -> int:
        """How much the memory's median grew from the second third of the frames to the last."""
        second = [kb for at, kb in self.samples if self.frames < 3 * at <= 2 * self.frames]
        last = [kb for at, kb in self.samples if 3 * at > 2 * self.frames]
        return int(median(last) - median(second)) if second and last else 0

    def __str__(self) -> str:
        memory = ", ".join(f"{kb >> 10}" for kb in self.memory_kb)
        return (
            f"{self.frames:,} frames on {self.connections:,} connections; {self.rounds:,} rounds "
            f"of the calm client, the slowest {self.slowest_s * 1000:.0f} ms; memory at each tenth "
            f"[{memory}] MB, {self._slope()}; {self.topics} topics and {self.metadata_records:,} "
            f"metadata records; {self.log_lines:,} log lines"
        )

    def _slope(self) -> str:
        if self.frames < JUDGED_FRAMES:
            return "too few frames for a slope"
        grown = (self.late_growth_kb() << 10) * 3 * 1000
        return (
            f"growing from the second third to the last by {grown / self.frames:+,.0f} bytes for "
            f"1,000 frames, {grown / self.connections:+,.0f} for 1,000 connections"
        )


class Target:
    """The node's process."""

    def __init__(self, directory: Path, more: Sequence[str] = ()) -> None:
        """`more`: lines for the properties."""
        self.port, self.controller_port = free_ports(2)
        self._output = directory / "output"
        self._properties = directory / "server.properties"
        self._properties.write_text(
            f"node.id={NODE_ID}\nprocess.roles=broker,controller\n"
            f"listeners=PLAINTEXT://127.0.0.1:{self.port},"
            f"CONTROLLER://127.0.0.1:{self.controller_port}\n"
            f"controller.quorum.voters={NODE_ID}@127.0.0.1:{self.controller_port}\n"
            f"log.dirs={directory / 'log'}\nlog.segment.bytes=16777216\nlog.retention.ms=-1\n"
            "offsets.topic.num.partitions=4\noffsets.topic.replication.factor=1\n"
            "transaction.state.log.num.partitions=4\ntransaction.state.log.min.isr=1\n"
            "transaction.state.log.replication.factor=1\n"
            "group.initial.rebalance.delay.ms=0\n" + "".join(f"{line}\n" for line in more)
        )
        self.start()

    def start(self) -> None:
        """Start the process; its output goes on."""
        with self._output.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "nodes", str(self._properties)],
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def descriptors(self) -> int:
        """How many files and sockets the process has open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def memory_kb(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        return int(found[1]) if found else 0

    def check(self, connections: int) -> int:
        """The number of log lines. Raises Broken."""
        if self.process.poll() is not None:
            raise Broken(f"the node ended with {self.process.returncode}:\n{self.tail()}")
        text = self._output.read_text(errors="replace")
        lines = text.count("\n")
        if lines > connections + LINES_BESIDES:
            raise Broken(f"{lines} log lines for {connections} connections")
        return lines

    def bugs(self) -> dict[str, int]:
        """How often each handler failed: by the end of its traceback."""
        text = self._output.read_text(errors="replace")
        blocks = re.findall(r"^Traceback.*\n((?:[ ].*\n)+)(.*)", text, re.MULTILINE)
        ends = [f"{error} {frames.strip().splitlines()[-2:]}" for frames, error in blocks]
        return dict(Counter(ends))

    def tail(self) -> str:
        return self._output.read_text(errors="replace")[-3000:]

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@contextlib.asynccontextmanager
async def _running(directory: Path) -> AsyncIterator[tuple[Target, Calm]]:
    target = Target(directory)
    calm = Calm(target.port)
    try:
        await calm.prepare()
        await calm.join()
        yield target, calm
    finally:
        calm.close()
        target.stop()


async def attack(frames: int, seed: int, directory: Path) -> Result:
    """Send that many frames. Raises Broken."""
    result = Result()
    async with _running(directory) as (target, calm):
        controller = Calm(target.controller_port)
        listeners = [(target.port, await calm.served())] * 3
        own = {k: v for k, v in (await controller.served()).items() if k not in QUORUM_APIS}
        listeners.append((target.controller_port, own))
        controller.close()
        rng = random.Random(seed)
        before = target.descriptors()
        for _ in range(10):
            goal = result.frames + frames // 10
            attackers = [
                asyncio.create_task(
                    _attack(port, Malice(random.Random(rng.getrandbits(64)), served), goal, result)
                )
                for port, served in (listeners[n % len(listeners)] for n in range(ATTACKERS))
            ]
            try:
                await _stay_calm(calm, attackers, target, result)
                result.topics, result.metadata_records = await calm.made()
            except (ChannelError, TimeoutError) as error:
                target.check(result.connections)
                raise Broken(f"the calm client was not served: {error}\n{target.tail()}") from error
            finally:
                for attacker in attackers:
                    attacker.cancel()
            result.memory_kb.append(target.memory_kb())
            result.log_lines = target.check(result.connections)
            if frames >= 100_000:
                print(result, flush=True)
        await _answered(target, calm, rng)
        await _descriptors_closed(target, before)
        await _loads_its_coordinators(target, calm)
        bugs = target.bugs()
        if bugs:
            told = "\n".join(f"{count} times {bug}" for bug, count in bugs.items())
            raise Broken(f"tracebacks in the node's log:\n{told}\n{result}")
        grown = result.memory_kb[-1] - result.memory_kb[0]
        if grown > MEMORY_GROWTH_KB:
            raise Broken(f"memory grew by {grown >> 10} MB: {result}")
        late = result.late_growth_kb()
        if frames >= JUDGED_FRAMES and late > LATE_GROWTH_KB:
            raise Broken(f"memory grows: by {late} KB after the first third: {result}")
    return result


async def _stay_calm(
    calm: Calm, attackers: list["asyncio.Task[None]"], target: Target, result: Result
) -> None:
    loop = asyncio.get_running_loop()
    while not all(attacker.done() for attacker in attackers):
        begun = loop.time()
        await calm.round(result.rounds)
        result.rounds += 1
        result.slowest_s = max(result.slowest_s, loop.time() - begun)
        if result.rounds % ROUNDS_A_SAMPLE == 0 and (await calm.made())[0] == CALM_TOPICS:
            result.samples.append((result.frames, target.memory_kb()))
        await asyncio.sleep(CALM_PAUSE_S)
    await asyncio.gather(*attackers)


async def _answered(target: Target, calm: Calm, rng: random.Random) -> None:
    """Ask each version of each api something hostile. Raises Broken if nothing happens."""
    served = await calm.served()
    malice = Malice(rng, served)
    for key, version in malice.requests:
        if key in WAITING_APIS:
            continue
        reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
        try:
            writer.write(malice.request_of(key, version) + PING)
            await asyncio.wait_for(reader.read(1), PATIENCE_S)  # nothing: it was closed
        except TimeoutError as error:
            raise Broken(f"api key {key} v{version} is not answered") from error
        finally:
            writer.close()


async def _descriptors_closed(target: Target, before: int) -> None:
    """Raises Broken unless the connections' descriptors are closed soon."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + PATIENCE_S
    while (now := target.descriptors()) > before + DESCRIPTORS_BESIDES:
        if loop.time() > until_s:
            raise Broken(f"{now} descriptors are open, {before} were before the attack")
        await asyncio.sleep(0.1)


async def _loads_its_coordinators(target: Target, calm: Calm) -> None:
    """Restart the node; its coordinators must know what they knew. Raises Broken."""
    known = await calm.coordinators()
    async with asyncio.timeout(PATIENCE_S):
        while True:  # until no marker is under way
            await asyncio.sleep(SETTLED_S)
            before, known = known, await calm.coordinators()
            if known is not None and known == before:
                break
    target.stop()
    target.start()
    await calm.prepare()
    until_s = asyncio.get_running_loop().time() + PATIENCE_S
    found = await calm.coordinators()
    while found != known:  # a broker leads its partitions one after the other
        if asyncio.get_running_loop().time() > until_s:
            raise Broken(f"the coordinators knew {known}, and after a restart {found}")
        await asyncio.sleep(0.1)
        found = await calm.coordinators()
    await calm.round(0)


async def _attack(port: int, malice: Malice, goal: int, result: Result) -> None:
    while result.frames < goal:
        frames, _ = malice.burst()
        result.frames += len(frames)
        result.connections += 1
        with contextlib.suppress(ConnectionError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(b"".join(frames))
                await asyncio.wait_for(writer.drain(), PATIENCE_S)
                with contextlib.suppress(TimeoutError):
                    malice.heard(await asyncio.wait_for(reader.read(1 << 16), 0.02))
            finally:
                writer.close()


def main() -> int:
    """The exit code: 1 when the node broke."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="highwater-fuzz-") as directory:
        try:
            print(asyncio.run(attack(arguments.frames, arguments.seed, Path(directory))))
        except Broken as error:
            print(f"BROKEN: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
