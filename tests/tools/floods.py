"""Floods the coordinators of one node, and measures the memory that each thing costs.

    python -m tests.tools.floods --count 10000

A new node, in a process of its own, for each flood:

- `pending`: clients ask for a member id and never come back with it (KIP-394);
- `members`: clients join one group and wait for the rebalance, over many connections;
- `groups`: each group has one committed offset;
- `ids`: transactional ids, each with a producer id;
- `metadata`: commits with 1 MB of metadata, which are refused.
"""

import argparse
import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from nodes.wire.client import Channel
from nodes.wire.versions import fill
from tests.support.nodes.calm_client import PATIENCE_S, TOPIC, Calm
from tests.tools.wire_fuzz import Target

IN_FLIGHT: Final = 50
LONG: Final = timedelta(minutes=10)
MEGABYTE: Final = "m" * (1 << 20)
METADATA_COMMITS: Final = 20


@dataclass(frozen=True, slots=True)
class Flood:
    """What a flood did."""

    answers: Counter[ErrorCode]
    """How often each error was answered; requests that wait for others have no answer."""
    grown_kb: int
    """How much memory the process has more than before."""
    count: int

    @property
    def bytes_each(self) -> int:
        """Bytes of memory for each thing."""
        return (self.grown_kb << 10) // self.count


Requests = Iterable[tuple[int, int, dict[str, Any]]]
"""Api key, version and fields of each request."""


def pending(count: int) -> Requests:
    """Joins without a member id."""
    for _ in range(count):
        yield 11, 9, _join("g")


def members(count: int) -> Requests:
    """Joins of a version that needs no member id: each is a member at once, and waits."""
    for _ in range(count):
        yield 11, 3, _join("g")


def groups(count: int) -> Requests:
    """Commits, each to another group."""
    for number in range(count):
        yield 8, 9, {"group_id": f"group-{number}", **_commit("m")}


def ids(count: int) -> Requests:
    """Producers, each with another transactional id."""
    for number in range(count):
        fields = {"transactional_id": f"id-{number}", "transaction_timeout": timedelta(seconds=60)}
        yield 22, 4, fields


def metadata(count: int) -> Requests:
    """Commits with too much metadata."""
    for number in range(count):
        yield 8, 9, {"group_id": f"group-{number}", **_commit(MEGABYTE)}


FLOODS: Final[dict[str, Callable[[int], Requests]]] = {
    each.__name__: each for each in (pending, members, groups, ids, metadata)
}


def _join(group: str) -> dict[str, Any]:
    return {
        "group_id": group,
        "session_timeout": timedelta(seconds=30),
        "rebalance_timeout": LONG,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"x" * 40}],
    }


def _commit(text: str) -> dict[str, Any]:
    part = {"partition_index": 0, "committed_offset": 1, "committed_metadata": text}
    topics = [{"name": TOPIC, "partitions": [part]}]
    return {"generation_id_or_member_epoch": -1, "topics": topics}


async def flood(
    name: str, count: int, directory: Path, properties: Sequence[str] = ()
) -> tuple[Flood, int]:
    """Do one flood; also return how many members the group `g` has after it."""
    target = Target(directory, properties)
    calm = Calm(target.port)
    channels: list[Channel] = []
    try:
        await calm.prepare()
        await calm.join()
        await calm.round(0)
        before = target.memory_kb()
        answers = await _send(target, [*FLOODS[name](count)], channels, waits=name == "members")
        grown = target.memory_kb() - before
        await calm.round(1)
        described = await calm.ask(15, 5, groups=["g"])
        target.check(0)
        return Flood(answers, grown, count), len(described.groups[0].members)
    finally:
        for channel in channels:
            channel.close()
        calm.close()
        target.stop()


async def _send(
    target: Target, requests: Sequence[Any], channels: list[Channel], *, waits: bool
) -> Counter[ErrorCode]:
    """Send the requests, some at a time; `waits`: most are not answered soon."""
    answers: Counter[ErrorCode] = Counter()
    for first in range(0, len(requests), IN_FLIGHT):
        if waits or not channels:
            limit = LONG.total_seconds() if waits else PATIENCE_S
            channels.append(
                Channel("127.0.0.1", target.port, client_id="flood", request_timeout_s=limit)
            )
        asked = [
            asyncio.ensure_future(
                channels[-1].request(fill(load_request_schema(key, version), **fields))
            )
            for key, version, fields in requests[first : first + IN_FLIGHT]
        ]
        done, waiting = await asyncio.wait(asked, timeout=0.1 if waits else PATIENCE_S)
        assert waits or not waiting, f"{len(waiting)} requests are not answered"
        answers.update(_error_of(each.result()) for each in done)
        for each in waiting:
            each.add_done_callback(lambda late: late.cancelled() or late.exception())
    return answers


def _error_of(answer: Any) -> ErrorCode:
    if hasattr(answer, "error_code"):
        return ErrorCode(answer.error_code)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


async def measure(names: Iterable[str], count: int) -> None:
    """Print the figures of these floods."""
    for name in names:
        most = METADATA_COMMITS if name == "metadata" else count
        with tempfile.TemporaryDirectory(prefix="highwater-flood-") as directory:
            result, members = await flood(name, most, Path(directory))
        errors = ", ".join(f"{code.name} {times:,}" for code, times in result.answers.items())
        each = f"{result.bytes_each:,} bytes each"
        print(f"{name}: {most:,}, {members:,} members; {errors}; {each}", flush=True)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("floods", nargs="*", default=[*FLOODS])
    parser.add_argument("--count", type=int, default=10_000)
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.floods, arguments.count))


if __name__ == "__main__":
    main()
