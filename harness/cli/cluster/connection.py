"""The options that choose a cluster, and the one way in which administrative commands run."""

import asyncio
import functools
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from harness.admin.client import AdminClient, parse_bootstrap
from harness.admin.errors import BadRequest, Unreachable
from harness.cli.options import AsJson, Debug

T = TypeVar("T")

Servers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        "--bootstrap-server",
        help="host:port[,host:port...] of any Kafka cluster. Default: the cluster that `highwater "
        "cluster up` runs on this machine.",
    ),
]
RunDir = Annotated[
    Path | None,
    typer.Option(
        "--run", help="The run directory of the cluster, when several run on this machine."
    ),
]
ClusterName = Annotated[
    str | None,
    typer.Option(
        "--name",
        help="The name of the cluster (`cluster up --name`), when several run on this machine.",
    ),
]

TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChoice:
    """The cluster of an administrative command, as its options name it."""

    bootstrap_servers: str | None = None
    run: Path | None = None
    name: str | None = None

    @property
    def is_foreign(self) -> bool:
        """Whether somebody else runs the cluster: it is known by its bootstrap servers alone."""
        return self.bootstrap_servers is not None

    def run_dir(self) -> Path:
        """Return the run directory of a cluster of `cluster up`. Raises ClusterError."""
        from harness.run import cluster

        return cluster.find(self.run, self.name).run

    def servers(self) -> str:
        """Return the bootstrap servers. Raises ClusterError, BadRequest."""
        if self.bootstrap_servers is None:
            from harness.run import cluster

            return cluster.find(self.run, self.name).bootstrap
        if self.run is not None or self.name is not None:
            other = "--run" if self.run is not None else "--name"
            raise BadRequest(f"give --bootstrap-servers or {other}, not both")
        return self.bootstrap_servers


def administrative(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that every administrative command has.

    These are --bootstrap-servers, --run and --name, which the command gets as `cluster`; --json,
    which it gets as `as_json`; and --debug.
    """
    signature = inspect.signature(command, eval_str=True)
    own = [
        each for each in signature.parameters.values() if each.name not in ("cluster", "as_json")
    ]
    shared: dict[str, tuple[Any, object]] = {
        "bootstrap_servers": (Servers, None),
        "run": (RunDir, None),
        "name_": (ClusterName, None),
        "as_json": (AsJson, False),
        "debug": (Debug, False),
    }

    @functools.wraps(command)
    def with_shared_options(**given: Any) -> None:
        choice = ClusterChoice(
            bootstrap_servers=given.pop("bootstrap_servers"),
            run=given.pop("run"),
            name=given.pop("name_"),
        )
        del given["debug"]  # `harness.cli.main` reads it from the command line
        command(**given, cluster=choice)

    parameters = own + [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in shared.items()
    ]
    parameters.sort(key=lambda each: each.kind)
    with_shared_options.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=parameters
    )
    with_shared_options.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_shared_options


def administer(
    work: Callable[[AdminClient], Awaitable[T]],
    cluster: ClusterChoice,
    *,
    timeout_s: float = TIMEOUT_S,
) -> T:
    """Run `work` against the cluster. Raises what `work` raises, ClusterError and Unreachable.

    A cluster where no broker answers is reported at once, before `work` starts.
    """
    servers = cluster.servers()
    addresses = parse_bootstrap(servers)

    async def connected() -> T:
        async with AdminClient(addresses, timeout_s=timeout_s) as admin:
            try:
                await admin.refresh()
            except Unreachable as error:
                raise Unreachable(f"{error}; is a cluster up at {servers}?") from error
            return await work(admin)

    return asyncio.run(connected())


def read_file(path: Path) -> str:
    """Return the text of a file that the command line names. Raises BadRequest."""
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
