"""Besieges a real node with what is legal and hostile, and watches it, its peers and a calm client.

    python -m tests.tools.wire_siege --rounds 3

Three nodes in processes of their own. Against one of them, on both its listeners:
- limits: every message that it serves, every number in it at the limits of its type;
- large: each api's largest legal request;
- half frames: connections that announce a frame of 100 MB and send nearly all of it;
- slow readers: connections that fetch 50 MB, or wait for more than there is, and read nothing.

All the while a calm client writes with acks=all, reads back and asks for metadata, at that node or,
once an attack moved its partition, at the leader. Its slowest round is told for each attack. In the
end all three nodes must live, no handler may have failed, the node's memory must have stayed below
MEMORY_KB, and the quorum elects another leader.
"""

import argparse
import asyncio
import contextlib
import random
import re
import struct
import sys
import tempfile
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from uuid import UUID

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from nodes.log.batch import Record, encode_batch
from nodes.wire.client import Channel
from nodes.wire.codec import encode_request
from nodes.wire.errors import ChannelError
from nodes.wire.versions import fill
from tests.support.nodes.largest_requests import largest
from tests.support.nodes.limit_values import METADATA_ID, METADATA_TOPIC, Knowledge, requests
from tests.tools.idle_partitions import Nodes

MEMORY_KB = 1000 << 10
"""queued.max.request.bytes and its counterpart, 256 MB each; as much again for what is being copied
from one buffer to the next; and what a node needs at rest."""
TOPIC, BULK, VICTIM = "calm", "bulk", "victim"
BULK_BYTES = 60 << 20
HALF_FRAMES, FRAME_BYTES = 12, 100 << 20
SLOW_READERS, FETCH_BYTES = 40, 50 << 20
HOLD_S = 3.0
STRANGER = 2_000_001
FIRST_ID = 11
"""No id of a node is beside a limit: what is asked of node 1 must not be this one's affair."""
AT_ONCE = 50
CLUSTER_ID = "highwater"


class Broken(Exception):
    """A node did what it must not; the message says what."""


@dataclass
class Watch:
    """What a calm client and a look at the node's memory found during one attack."""

    rounds: int = 0
    slowest_s: float = 0.0
    memory_kb: int = 0

    def __str__(self) -> str:
        return (
            f"{self.rounds} rounds of the calm client, the slowest {self.slowest_s * 1000:.0f} ms; "
            f"{self.memory_kb >> 10} MB at most"
        )


class Siege:
    """Three nodes, of which the one that leads the calm client's partition is attacked."""

    def __init__(self, nodes: Nodes, seed: int) -> None:
        self.nodes = nodes
        self.rng = random.Random(seed)
        self.target = 0
        self._leader = 0
        self._calm: Channel | None = None

    @property
    def port(self) -> int:
        """Where the target serves clients."""
        return self.nodes.ports[self.target]

    async def prepare(self) -> None:
        """Make the topics, fill one."""

        async def served() -> bool:
            answers = [await self.nodes.ask(n, 3, 12, topics=[]) for n in self.nodes.ports]
            return all(len(answer.brokers) == 3 for answer in answers)

        await self.nodes.until(served, "three brokers in service", 60)
        await self.nodes.create(TOPIC, 1)
        self.target = self._leader = await self.nodes.leader(TOPIC)
        self._calm = Channel("127.0.0.1", self.port, client_id="calm", request_timeout_s=60)
        assignment = [{"partition_index": 0, "broker_ids": [self.target]}]
        bulk = {"name": BULK, "num_partitions": -1, "replication_factor": -1}
        await self.ask(
            19, 7, topics=[{**bulk, "assignments": assignment}], timeout=timedelta(seconds=10)
        )
        await self.nodes.until(self._fill_bulk, "a topic of bulk", 60)

    def close(self) -> None:
        """Every connection of this process."""
        if self._calm is not None:
            self._calm.close()
        self.nodes.disconnect()

    async def _fill_bulk(self) -> bool:
        batch = encode_batch([Record(value=self.rng.randbytes(1_000_000))], timestamp_ms=1)
        for _ in range(BULK_BYTES // len(batch)):
            data = {"name": BULK, "partition_data": [{"index": 0, "records": batch}]}
            answer = await self.ask(0, 9, acks=1, timeout=timedelta(seconds=10), topic_data=[data])
            if answer.responses[0].partition_responses[0].error_code is not ErrorCode.none:
                return False
        return True

    async def ask(self, api_key: int, version: int, **values: Any) -> Any:
        """A request to the attacked node."""
        assert self._calm is not None
        return await self._calm.request(fill(load_request_schema(api_key, version), **values))

    async def _ask_leader(
        self, row: Callable[[Any], Any], api_key: int, version: int, **values: Any
    ) -> Any:
        """The row of the leader's answer. An attack may have preferred leaders elected, so
        the leader is looked for again. Raises ChannelError, TimeoutError.
        """
        async with asyncio.timeout(60):
            while True:
                found = row(await self.nodes.ask(self._leader, api_key, version, **values))
                if found.error_code is not ErrorCode.not_leader_or_follower:
                    return found
                leader = await self.nodes.leader(TOPIC)
                self._leader = leader if leader in self.nodes.ports else self._leader
                await asyncio.sleep(0.05)

    async def round(self, number: int) -> None:
        """The calm client writes, reads back, looks around. Raises Broken, ChannelError,
        TimeoutError.
        """
        batch = encode_batch([Record(value=b"%d" % number)], timestamp_ms=1)
        data = {"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}
        limit = timedelta(seconds=30)
        row = await self._ask_leader(
            lambda answer: answer.responses[0].partition_responses[0],
            0,
            9,
            acks=-1,
            timeout=limit,
            topic_data=[data],
        )
        if row.error_code is not ErrorCode.none:
            raise Broken(f"the calm client's write failed: {row}")
        wanted = {"partition": 0, "fetch_offset": row.base_offset, "partition_max_bytes": 1 << 20}
        topics = [{"topic": TOPIC, "partitions": [wanted]}]
        read = await self._ask_leader(
            lambda answer: answer.responses[0].partitions[0],
            1,
            12,
            max_wait=limit,
            min_bytes=1,
            max_bytes=1 << 20,
            replica_id=-1,
            topics=topics,
        )
        if bytes(read.records or b"")[17:] != batch[17:]:
            raise Broken(
                f"the calm client did not read back what it wrote at offset {row.base_offset}: "
                f"{read.error_code.name}, high watermark {read.high_watermark}, "
                f"{len(read.records or b'')} bytes"
            )
        await self.ask(3, 12, topics=[{"name": TOPIC}])

    def memory_kb(self) -> int:
        """Of the target, now."""
        process = self.nodes.process(self.target)
        status = Path(f"/proc/{process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        return int(found[1]) if found else 0

    async def during(self, attack: "Attack", pool: Executor) -> Watch:
        """Watch until the attack is over."""
        watch = Watch()
        loop = asyncio.get_running_loop()
        attacking = loop.run_in_executor(pool, _attack, attack, await self.place())
        looking = asyncio.ensure_future(self._look(watch))
        try:
            while not attacking.done():
                begun = loop.time()
                await self.round(watch.rounds)
                watch.slowest_s = max(watch.slowest_s, loop.time() - begun)
                watch.rounds += 1
                await asyncio.sleep(0.01)
            await attacking
        finally:
            looking.cancel()
        return watch

    async def _look(self, watch: Watch) -> None:
        while True:
            watch.memory_kb = max(watch.memory_kb, self.memory_kb())
            await asyncio.sleep(0.02)

    async def place(self) -> "Place":
        """What attackers know."""
        answer = await self.ask(3, 12, topics=[{"name": BULK}])
        wanted = {"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}
        quorum = (await self.ask(55, 2, topics=[wanted])).topics[0].partitions[0]
        other = next(v for v in quorum.current_voters if v.replica_id != self.target)
        known = Knowledge(
            cluster_id=CLUSTER_ID,
            topic=VICTIM,
            topic_id=answer.topics[0].topic_id or METADATA_ID,
            node_id=other.replica_id,
            stranger_id=STRANGER,
            directory_id=other.replica_directory_id or UUID(int=1),
            epoch=quorum.leader_epoch,
            at_controller=False,
        )
        return Place(self.port, self.nodes.controller_ports[self.target], known)

    # -- judging -------------------------------------------------------------------------------

    def check(self, directory: Path) -> None:
        """Raises Broken when a node died, or a handler failed."""
        for number, process in zip(self.nodes.ports, self.nodes.processes, strict=True):
            output = (directory / str(number) / "output").read_text(errors="replace")
            if process.poll() is not None:
                raise Broken(f"node {number} ended with {process.returncode}:\n{output[-3000:]}")
            if "Traceback" in output or "halts" in output:
                at = max(output.find("Traceback"), output.find("halts"), 300)
                raise Broken(f"node {number} failed:\n{output[at - 300 : at + 3000]}")

    async def elect(self) -> None:
        """Kill the quorum's leader: another one must be elected. Raises SystemExit."""
        wanted = {"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}

        async def leader(node: int) -> int:
            answer = await self.nodes.ask(node, 55, 0, topics=[wanted])
            return int(answer.topics[0].partitions[0].leader_id) if answer.topics else -1

        before = await leader(self.target)
        self.nodes.process(before).kill()
        left = next(n for n in self.nodes.ports if n != before)

        async def another() -> bool:
            return await leader(left) not in (-1, before)

        await self.nodes.until(another, "another leader of the quorum", 60)


@dataclass(frozen=True)
class Place:
    """What is attacked: the ports of one node, and what there is in its cluster."""

    port: int
    controller_port: int
    known: Knowledge


async def limits(place: Place) -> None:
    """Every message, every number at the limits of its type."""
    for port in (place.port, place.controller_port):
        known = replace(place.known, at_controller=port == place.controller_port)
        frames = [frame for _, _, frame in requests(await _served(port), known)]
        for start in range(0, len(frames), AT_ONCE):
            await asyncio.gather(*(_fire(port, f) for f in frames[start : start + AT_ONCE]))


async def large(place: Place) -> None:
    """Each api's largest legal request, one after the other."""
    for port in (place.port, place.controller_port):
        for _, frame in largest(await _served(port), METADATA_ID):
            await _fire(port, frame, patience_s=1.0)


async def half_frames(place: Place) -> None:
    """Frames of 100 MB less a bit."""
    junk = bytes(1 << 20)
    writers = []
    for _ in range(HALF_FRAMES):
        _, writer = await asyncio.open_connection("127.0.0.1", place.port)
        writers.append(writer)
        writer.write(struct.pack(">i", FRAME_BYTES))
    for _ in range(FRAME_BYTES // len(junk) - 1):
        for writer in writers:
            with contextlib.suppress(ConnectionError, TimeoutError):
                if not writer.is_closing():
                    writer.write(junk)
                    await asyncio.wait_for(writer.drain(), 5)
    await asyncio.sleep(HOLD_S)
    for writer in writers:
        writer.close()


async def slow_readers(place: Place) -> None:
    """Fetches of 50 MB; every second one asks for more than there is, and would wait."""
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": FETCH_BYTES}
    writers = []
    for number in range(SLOW_READERS):
        request = fill(
            load_request_schema(1, 12),
            max_wait=timedelta(days=1),
            min_bytes=2**31 - 1 if number % 2 else 1,
            max_bytes=FETCH_BYTES if number % 2 else 2**31 - 1,
            replica_id=-1,
            topics=[{"topic": BULK, "partitions": [wanted]}],
        )
        _, writer = await asyncio.open_connection("127.0.0.1", place.port, limit=1024)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writers.append(writer)
        writer.write(encode_request(request, 7, "slow"))
    await asyncio.sleep(HOLD_S)
    for writer in writers:
        writer.close()


async def nothing(_: Place) -> None:
    """For comparison."""
    await asyncio.sleep(HOLD_S)


Attack = Callable[[Place], Coroutine[Any, Any, None]]
ATTACKS: tuple[Attack, ...] = (limits, large, half_frames, slow_readers)


def _attack(attack: Attack, place: Place) -> None:
    """In a process of its own: the calm client must not wait for its attackers."""
    asyncio.run(attack(place))


async def _served(port: int) -> dict[int, tuple[int, int]]:
    channel = Channel("127.0.0.1", port, client_id="siege", request_timeout_s=30)
    try:
        answer = await channel.request(fill(load_request_schema(18, 0)))
    finally:
        channel.close()
    return {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}


async def _fire(port: int, frame: bytes, *, patience_s: float = 0.03) -> None:
    """Send one frame; wait a little for its answer, or for the end of the connection."""
    with contextlib.suppress(ConnectionError, TimeoutError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(frame)
            await asyncio.wait_for(reader.read(1 << 16), patience_s)
        finally:
            writer.close()


async def besiege(siege: Siege, directory: Path, rounds: int, pool: Executor) -> None:
    """All attacks, so many times over. Raises Broken."""
    await siege.prepare()
    print(f"at rest: {await siege.during(nothing, pool)}", flush=True)
    worst = Watch()
    for attack in ATTACKS * rounds:
        try:
            watch = await siege.during(attack, pool)
        except (ChannelError, TimeoutError) as error:
            siege.check(directory)
            raise Broken(f"{attack.__name__}: nobody served the calm client: {error}") from error
        print(f"{attack.__name__}: {watch}", flush=True)
        worst.slowest_s = max(worst.slowest_s, watch.slowest_s)
        worst.memory_kb = max(worst.memory_kb, watch.memory_kb)
        siege.check(directory)
    if worst.memory_kb > MEMORY_KB:
        raise Broken(f"{worst.memory_kb >> 10} MB, more than the {MEMORY_KB >> 10} allowed")
    await siege.elect()
    print(
        f"the calm client's slowest round took {worst.slowest_s * 1000:.0f} ms; "
        f"{worst.memory_kb >> 10} MB at most of {MEMORY_KB >> 10}; every voter alive, and another "
        "leader elected"
    )


async def _run(siege: Siege, directory: Path, rounds: int) -> None:
    try:
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            await besiege(siege, directory, rounds, pool)
    finally:
        siege.close()
        await asyncio.sleep(0.05)  # connections need some turns of the loop to end


def main() -> int:
    """The exit code: 1 when a node broke."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="highwater-siege-") as directory:
        nodes = Nodes(Path(directory), FIRST_ID)
        try:
            asyncio.run(_run(Siege(nodes, arguments.seed), Path(directory), arguments.rounds))
        except Broken as error:
            print(f"BROKEN: {error}", file=sys.stderr)
            return 1
        finally:
            nodes.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
