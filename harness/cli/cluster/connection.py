"""Which cluster an administrative command means, and the one way in which they all run."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from harness.admin.client import AdminClient, parse_bootstrap
from harness.admin.errors import BadRequest, Unreachable

T = TypeVar("T")

Servers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        "--bootstrap-server",
        help="host:port[,host:port...] of any Kafka cluster; else the one that is up here.",
    ),
]
RunDir = Annotated[
    Path | None, typer.Option("--run", help="The run directory of the cluster that is meant.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TIMEOUT_S = 60.0


def servers(bootstrap: str | None, run: Path | None) -> str:
    """Where the cluster is that is meant. Raises ClusterError, BadRequest."""
    if bootstrap is not None and run is not None:
        raise BadRequest("give --bootstrap-servers or --run, not both")
    if bootstrap is not None:
        return bootstrap
    from harness.run import cluster

    return cluster.find(run).bootstrap


def administer(
    work: Callable[[AdminClient], Awaitable[T]],
    bootstrap: str | None,
    run: Path | None,
    *,
    timeout_s: float = TIMEOUT_S,
) -> T:
    """Run `work` against the cluster that is meant. Raises what `work` does, and Unreachable.

    Whether anybody is there at all is found out first, and at once.
    """
    where = servers(bootstrap, run)
    addresses = parse_bootstrap(where)

    async def connected() -> T:
        async with AdminClient(addresses, timeout_s=timeout_s) as admin:
            try:
                await admin.refresh()
            except Unreachable as error:
                raise Unreachable(f"{error}; is a cluster up at {where}?") from error
            return await work(admin)

    return asyncio.run(connected())


def read_file(path: Path) -> str:
    """A file that was named on the command line. Raises BadRequest."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise BadRequest(f"{path}: cannot be read ({reason})") from error


def print_json(value: Any) -> None:
    """Print a result for programs."""
    print(json.dumps(value))


def print_lines(lines: Iterable[str]) -> None:
    """Print a result for people."""
    for line in lines:
        print(line)
