"""What many idle partitions cost: processor time, and the latency of a busy one among them.

    python -m tests.tools.idle_partitions --partitions 10000

Three nodes as processes on loopback, replication factor 3. Prints, before and after the idle
partitions are made, each node's processor use over some seconds without traffic, and the latency of
acks=all sends of 1 KB, one in flight, to a partition of its own.
"""

import argparse
import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from nodes.log.batch import Record, encode_batch
from nodes.wire.client import Channel
from nodes.wire.errors import ChannelError
from nodes.wire.versions import fill
from tests.support.nodes.cluster import free_ports

PRODUCE, METADATA, CREATE_TOPICS = 0, 3, 19
BATCH = encode_batch([Record(value=b"x" * 1000)], timestamp_ms=1)
SETTLE_S = 20
"""Brokers make the logs of new partitions a few at a time."""
TICKS = os.sysconf("SC_CLK_TCK")


class Nodes:
    """Three node processes under `directory`, with ids from `first_id` on."""

    def __init__(self, directory: Path, first_id: int = 1) -> None:
        ids = range(first_id, first_id + 3)
        ports = free_ports(6)
        self.ports = dict(zip(ids, ports, strict=False))
        self.controller_ports = dict(zip(ids, ports[3:], strict=True))
        voters = ",".join(f"{n}@127.0.0.1:{port}" for n, port in self.controller_ports.items())
        self.processes: list[subprocess.Popen[bytes]] = []
        for node in ids:
            data = directory / str(node)
            data.mkdir()
            properties = data / "server.properties"
            properties.write_text(
                f"node.id={node}\nprocess.roles=broker,controller\n"
                f"listeners=PLAINTEXT://127.0.0.1:{self.ports[node]},"
                f"CONTROLLER://127.0.0.1:{self.controller_ports[node]}\n"
                f"controller.quorum.voters={voters}\nlog.dirs={data / 'log'}\n"
                "broker.session.timeout.ms=30000\n"
            )
            with (data / "output").open("wb") as output:
                self.processes.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "nodes", str(properties)],
                        stdout=output,
                        stderr=subprocess.STDOUT,
                    )
                )
        self._channels = {
            node: Channel("127.0.0.1", port, client_id="cost", request_timeout_s=60)
            for node, port in self.ports.items()
        }

    async def ask(self, node: int, api_key: int, version: int, **values: Any) -> Any:
        request = fill(load_request_schema(api_key, version), **values)
        return await self._channels[node].request(request)

    def process(self, node: int) -> "subprocess.Popen[bytes]":
        return self.processes[list(self.ports).index(node)]

    async def until(self, ready: Any, what: str, timeout_s: float = 300) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    try:
                        if await ready():
                            return
                    except ChannelError:
                        pass
                    await asyncio.sleep(0.2)
        except TimeoutError:
            raise SystemExit(f"not within {timeout_s} s: {what}") from None

    async def create(self, topic: str, partitions: int) -> None:
        response = await self.ask(
            min(self.ports),
            CREATE_TOPICS,
            7,
            topics=[{"name": topic, "num_partitions": partitions, "replication_factor": 3}],
            timeout=timedelta(seconds=60),
        )
        created = response.topics[0]
        if created.error_code is not ErrorCode.none:
            raise SystemExit(f"{topic}: {created.error_code.name} {created.error_message}")

        async def everywhere() -> bool:
            for node in self.ports:
                answer = await self.ask(node, METADATA, 12, topics=[{"name": topic}])
                parts = answer.topics[0].partitions
                if len(parts) != partitions or any(len(p.isr_nodes) < 3 for p in parts):
                    return False
            return True

        await self.until(everywhere, f"{topic} in sync everywhere")

    async def leader(self, topic: str) -> int:
        answer = await self.ask(min(self.ports), METADATA, 12, topics=[{"name": topic}])
        return int(answer.topics[0].partitions[0].leader_id)

    def processor_s(self) -> list[float]:
        """Processor time used so far, of each node."""
        times = []
        for process in self.processes:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            times.append((int(fields[11]) + int(fields[12])) / TICKS)
        return times

    def disconnect(self) -> None:
        for channel in self._channels.values():
            channel.close()

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


async def idle(nodes: Nodes, seconds: float) -> str:
    before = nodes.processor_s()
    await asyncio.sleep(seconds)
    used = [after - b for after, b in zip(nodes.processor_s(), before, strict=True)]
    return ", ".join(f"{100 * each / seconds:.1f} %" for each in used)


async def latency(nodes: Nodes, topic: str, sends: int) -> str:
    leader = await nodes.leader(topic)
    loop = asyncio.get_running_loop()
    taken = []
    data = [{"name": topic, "partition_data": [{"index": 0, "records": BATCH}]}]
    for _ in range(sends):
        begin = loop.time()
        answer = await nodes.ask(
            leader, PRODUCE, 9, acks=-1, timeout=timedelta(seconds=10), topic_data=data
        )
        taken.append((loop.time() - begin) * 1000)
        if answer.responses[0].partition_responses[0].error_code is not ErrorCode.none:
            raise SystemExit(f"a send was refused: {answer}")
    taken = sorted(taken[sends // 10 :])
    return f"p50 {statistics.median(taken):.2f} ms, p99 {taken[int(len(taken) * 0.99)]:.2f} ms"


async def measure(nodes: Nodes, partitions: int, seconds: float, sends: int) -> None:
    async def served() -> bool:
        answers = [await nodes.ask(node, METADATA, 12, topics=[]) for node in nodes.ports]
        return all(len(answer.brokers) == 3 for answer in answers)

    await nodes.until(served, "three brokers in service", 60)
    await nodes.create("busy", 1)
    await latency(nodes, "busy", 500)
    print("alone: idle", await idle(nodes, seconds), flush=True)
    print("alone: acks=all", await latency(nodes, "busy", sends), flush=True)
    loop = asyncio.get_running_loop()
    begin = loop.time()
    await nodes.create("many", partitions)
    print(f"{partitions} partitions: in sync after {loop.time() - begin:.1f} s", flush=True)
    await asyncio.sleep(SETTLE_S)
    print(f"{partitions} partitions: idle", await idle(nodes, seconds), flush=True)
    print(f"{partitions} partitions: acks=all", await latency(nodes, "busy", sends), flush=True)


async def measured(nodes: Nodes, arguments: argparse.Namespace) -> None:
    try:
        await measure(nodes, arguments.partitions, arguments.seconds, arguments.sends)
    finally:
        nodes.disconnect()


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--sends", type=int, default=2000)
    arguments = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as directory:
        nodes = Nodes(Path(directory))
        try:
            asyncio.run(measured(nodes, arguments))
        except SystemExit:
            for output in sorted(Path(directory).glob("*/output")):
                print(f"--- {output}", *output.read_text().splitlines()[-15:], sep="\n")
            raise
        finally:
            nodes.stop()


if __name__ == "__main__":
    main()
