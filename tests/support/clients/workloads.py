"""The configuration of a client process in tests, how it runs, and its rows."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkers.history.history import read_arrow_stream
from harness.plans.plan import Workload
from harness.plans.workloads import PROGRAM
from harness.workloads.clients import libraries
from harness.workloads.config import ClientConfig
from harness.workloads.configs import AnyConfig, load
from harness.workloads.launch import MODULES
from tests.support.clusters.kafka_mock import PARTITIONS
from tests.support.require import require

DEADLINE_S = 60
SAMPLE = (sys.executable, "-m", "tests.support.clients.sample_program")
"""The command of the sample of a client program."""
NOWHERE = "127.0.0.1:1"
"""Where no broker is."""


def client_config(folder: Path, **changes: Any) -> ClientConfig:
    """One producer and one consumer of the topic `t`, whose history goes to `folder`."""
    values: dict[str, Any] = {
        "run_id": "run",
        "history_dir": str(folder),
        "first_client": 1000,
        "bootstrap": NOWHERE,
        "topic": "t",
        "partitions": PARTITIONS,
        "acks": -1,
        "idempotence": False,
        "producers": 1,
        "consumers": 1,
        "rate_per_s": 200,
        "value_bytes": 128,
        "max_in_flight": 100,
        "linger_ms": 2,
        "message_timeout_ms": 10_000,
    }
    values |= changes
    if "base_ns" not in values:  # a simulated world says, and forbids the real clock
        values["base_ns"] = time.monotonic_ns()
    return ClientConfig(**values)


def workload_of(client: str) -> Workload:
    """A workload with this client; a program is the sample of the tests."""
    return Workload(client=client, client_command=SAMPLE if client == PROGRAM else ())


def require_client(client: str) -> None:
    """Skip the running test on a machine that lacks the client."""
    if client == "java":
        require("java-client")


@contextmanager
def running(
    client: str, wanted: AnyConfig, command: Sequence[str] | None = None
) -> Iterator[Iterator[bytes]]:
    """Run the process and give its lines; then close its standard input and wait for its end. The
    command of a client program is the sample's, unless it is given."""
    path = Path(wanted.history_dir) / "c.json"
    found = libraries.command(workload_of(client)) if command is None else command
    wanted = replace(wanted, command=found)
    wanted.save(path)
    assert load(path) == wanted
    with subprocess.Popen(
        [sys.executable, "-m", MODULES[client], str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield iter(process.stdout)
        process.stdin.close()
        assert process.wait(DEADLINE_S) == 0


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The rows of the only history in the folder, which must be complete."""
    (stream,) = folder.glob("*.arrows")
    table, complete = read_arrow_stream(stream)
    assert complete
    return list(table.to_pylist())
