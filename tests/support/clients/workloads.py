"""The configuration of a client process in tests, how it runs, and its rows."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from checkers.history.history import read_arrow_stream
from harness.plans.plan import ClientName
from harness.workloads.config import ClientConfig
from harness.workloads.launch import MODULES
from tests.support.clusters.kafka_mock import PARTITIONS

DEADLINE_S = 60
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


@contextmanager
def running(client: ClientName, wanted: ClientConfig) -> Iterator[Iterator[bytes]]:
    """Run the process and give its lines; then close its standard input and wait for its end."""
    path = Path(wanted.history_dir) / "c.json"
    wanted.save(path)
    assert ClientConfig.load(path) == wanted
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
