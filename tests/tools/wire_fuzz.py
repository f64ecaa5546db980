"""Sends malice to a real node, and watches what becomes of it and of a client that behaves.

    python -m tests.tools.wire_fuzz --frames 1000000 --seed 7

One node in a process of its own, attacked on both its listeners over many connections. All the
while one client writes a record, reads it back and asks for metadata, over connections that must
stay, and gets the right answers. In the end the node must live, its log have at most one line for
each bad connection, and no traceback.

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
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from nodes.log.batch import Record, encode_batch
from nodes.wire.client import Channel
from nodes.wire.errors import ChannelError
from nodes.wire.versions import fill
from tests.support.nodes.cluster import free_ports
from tests.support.nodes.hostile_frames import Malice

NODE_ID = 77
TOPIC = "calm"
ATTACKERS = 8
QUORUM_APIS = frozenset({1, 52, 53, 54, 59, 80, 81, 82})
PATIENCE_S = 60.0
CALM_PAUSE_S = 0.02
ROUNDS_A_SAMPLE = 5
MEMORY_GROWTH_KB = 128 << 10
"""From the first tenth to the end: codecs are made for every version of every api."""
LATE_GROWTH_KB = 6 << 10
"""From the second third to the last, of medians: the allocator's own ups and downs."""
JUDGED_FRAMES = 600_000
"""Of shorter runs, the first third is no warm-up."""
METADATA_LOG = "__cluster_metadata"
LINES_BESIDES = 500
"""Lines that the node may log for reasons of its own."""


class Broken(Exception):
    """The node did what it must not; the message says what."""


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

    def __init__(self, directory: Path) -> None:
        self.port, self.controller_port = free_ports(2)
        self._output = directory / "output"
        properties = directory / "server.properties"
        properties.write_text(
            f"node.id={NODE_ID}\nprocess.roles=broker,controller\n"
            f"listeners=PLAINTEXT://127.0.0.1:{self.port},"
            f"CONTROLLER://127.0.0.1:{self.controller_port}\n"
            f"controller.quorum.voters={NODE_ID}@127.0.0.1:{self.controller_port}\n"
            f"log.dirs={directory / 'log'}\nlog.segment.bytes=16777216\nlog.retention.ms=-1\n"
        )
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "nodes", str(properties)],
                stdout=output,
                stderr=subprocess.STDOUT,
            )

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


class Calm:
    """The client that behaves."""

    def __init__(self, port: int) -> None:
        self._channel = Channel("127.0.0.1", port, client_id="calm", request_timeout_s=PATIENCE_S)

    async def ask(self, api_key: int, version: int, **values: Any) -> Any:
        return await self._channel.request(fill(load_request_schema(api_key, version), **values))

    async def prepare(self) -> None:
        """Wait for the node; make the topic."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                with contextlib.suppress(ChannelError):
                    topic = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1}
                    limit = timedelta(seconds=10)
                    answer = await self.ask(19, 7, topics=[topic], timeout=limit)
                    if answer.topics[0].error_code in (0, ErrorCode.topic_already_exists):
                        break
                await asyncio.sleep(0.1)

    async def round(self, number: int) -> None:
        """Write, read back, look around. Raises Broken, ChannelError."""
        batch = encode_batch([Record(key=b"k", value=b"%d" % number)], timestamp_ms=number + 1)
        data = {"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}
        limit = timedelta(seconds=10)
        answer = await self.ask(0, 9, acks=-1, timeout=limit, topic_data=[data])
        row = answer.responses[0].partition_responses[0]
        if row.error_code is not ErrorCode.none:
            raise Broken(f"the calm client's write failed: {row}")
        wanted = {"partition": 0, "fetch_offset": row.base_offset, "partition_max_bytes": 1 << 20}
        topics = [{"topic": TOPIC, "partitions": [wanted]}]
        answer = await self.ask(
            1, 12, max_wait=limit, min_bytes=1, max_bytes=1 << 20, replica_id=-1, topics=topics
        )
        row = answer.responses[0].partitions[0]
        records = row.records or b""
        if records[8:12] != batch[8:12] or records[17:] != batch[17:]:
            raise Broken(f"the calm client did not read back what it wrote, but {row}")
        answer = await self.ask(3, 12, topics=[{"name": TOPIC}])
        leader = answer.topics[0].partitions[0].leader_id
        if leader != NODE_ID:
            raise Broken(f"the calm client's topic is led by {leader}")

    async def made(self) -> tuple[int, int]:
        """How many topics there are, and records of the metadata log."""
        topics = (await self.ask(3, 12, topics=None)).topics
        wanted = {"topic_name": METADATA_LOG, "partitions": [{"partition_index": 0}]}
        answer = await self.ask(55, 0, topics=[wanted])
        return len(topics), answer.topics[0].partitions[0].high_watermark

    async def served(self) -> dict[int, tuple[int, int]]:
        """The versions of every api."""
        answer = await self.ask(18, 0)
        return {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}

    def close(self) -> None:
        self._channel.close()


@contextlib.asynccontextmanager
async def _running(directory: Path) -> AsyncIterator[tuple[Target, Calm]]:
    target = Target(directory)
    calm = Calm(target.port)
    try:
        await calm.prepare()
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
        if result.rounds % ROUNDS_A_SAMPLE == 0 and (await calm.made())[0] == 1:
            result.samples.append((result.frames, target.memory_kb()))
        await asyncio.sleep(CALM_PAUSE_S)
    await asyncio.gather(*attackers)


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
                    await asyncio.wait_for(reader.read(1 << 16), 0.02)
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
