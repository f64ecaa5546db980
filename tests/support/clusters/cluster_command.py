"""`highwater cluster up` as a person starts it, for tests that need a cluster from outside."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TypeVar

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.request import MetadataRequest

from harness.cli.main import main
from nodes.wire.client import Channel
from nodes.wire.versions import fill

T = TypeVar("T")

PATIENCE_S = 90.0
"""The bound of every wait for a command: far above what a busy machine needs."""


def command(*arguments: str | Path) -> list[str]:
    """The command line of `highwater`."""
    return [sys.executable, "-m", "harness.cli.main", *map(str, arguments)]


def highwater(
    *arguments: str | Path, patience_s: float = PATIENCE_S
) -> subprocess.CompletedProcess[str]:
    """Run `highwater` to its end."""
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=patience_s, check=False
    )


@dataclass(frozen=True, slots=True)
class Printed:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """The words of each line that has any."""
        return [line.split() for line in self.out.splitlines() if line.strip()]


def called(*arguments: str) -> Printed:
    """Run `highwater` in this process: a command that only asks a cluster."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main(arguments)
    code = ended.value.code
    assert isinstance(code, int)
    return Printed(code, out.getvalue(), err.getvalue())


def until(look: Callable[[], T], holds: Callable[[T], object]) -> T:
    """Look until it holds; return what was seen then."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


@dataclass(frozen=True, slots=True)
class ClusterUp:
    """A cluster that is up: its facts, and its harness in the foreground."""

    bootstrap: str
    run: Path
    process: subprocess.Popen[str]


def facts(output: str) -> dict[str, str]:
    """Read what `cluster up` prints: a name and a value on each line."""
    return dict(line.split(maxsplit=1) for line in output.splitlines() if line.strip())


@contextmanager
def cluster_up(store: Path, *options: str) -> Iterator[ClusterUp]:
    """A cluster in the foreground. The signal of Ctrl-C ends it, which must succeed."""
    with (store.parent / "cluster-up.err").open("w+") as errors:
        process = subprocess.Popen(
            command("cluster", "up", "--store", store, *options),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            assert process.stdout is not None
            said: dict[str, str] = {}
            while "run" not in said:
                line = process.stdout.readline()
                assert line, f"cluster up ended: {Path(errors.name).read_text()}"
                said |= facts(line)
            yield ClusterUp(said["bootstrap"], Path(said["run"]), process)
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 0, Path(errors.name).read_text()
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait(PATIENCE_S)
            assert process.stdout is not None
            process.stdout.close()


def known_everywhere(bootstrap: str, topic: str) -> None:
    """Wait until every broker knows the topic and its leaders. CreateTopics is answered when the
    topic is in the metadata log. Brokers learn of it a little later, as Kafka's do, and refuse
    requests for it until then. A client that asks only once, or that wants no acknowledgement,
    would fail for good."""

    async def known(host: str, port: int) -> None:
        channel = Channel(host, port, client_id="test", request_timeout_s=PATIENCE_S)
        try:
            while True:
                answer = await channel.request(fill(MetadataRequest, topics=[{"name": topic}]))
                found = answer.topics[0]
                errors = {found.error_code, *(each.error_code for each in found.partitions)}
                if errors == {ErrorCode.none}:
                    return
                await asyncio.sleep(0.02)
        finally:
            channel.close()

    async def all_of_them() -> None:
        brokers = [address.rpartition(":") for address in bootstrap.split(",")]
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*(known(host, int(port)) for host, _, port in brokers))

    asyncio.run(all_of_them())
