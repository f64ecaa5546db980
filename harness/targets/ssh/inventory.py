"""The inventory: the machines of the SSH target, and how to reach each. See docs/ssh.md.

It is a TOML file. A key at the top is the default for all hosts. Keys that are missing in both
places come from the user's ssh configuration, as with `ssh` itself.
"""

import tomllib
from collections.abc import Mapping
from ipaddress import IPv4Address
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from harness.plans.plan import PlanError
from harness.plans.problems import describe_problems

MAX_NODE: Final = 200

_Here = Annotated[Path, AfterValidator(Path.expanduser)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Host(_Frozen):
    """One machine, and the node that runs on it."""

    node: int = Field(ge=1, le=MAX_NODE)
    host: str = Field(min_length=1)
    """Where ssh connects: a name, an address, or a `Host` of the ssh configuration."""
    port: int | None = Field(default=None, ge=1, le=65535)
    user: str | None = None
    key: _Here | None = None
    """The private key's file; by default the keys of ssh-agent and the user's default keys."""
    jump: str | None = None
    """A jump host: [user@]host[:port], or a `Host` of the ssh configuration."""
    sudo: bool | None = None
    """Whether commands of root run by `sudo -n`; by default if the user is not root."""
    address: IPv4Address | None = None
    """The IPv4 address that nodes and clients use; by default the one that ssh connects to."""
    directory: PurePosixPath = PurePosixPath("/var/lib/highwater")
    """The directory of highwater on the machine: its software, and the nodes of runs."""
    python: str = "python3"
    clock: Literal["process", "machine"] = "process"
    """Which clock a fault sets: the one of the node's process (libfaketime), or the machine's."""

    @property
    def label(self) -> str:
        """The host's name in messages."""
        return f"node {self.node}'s host {self.host}"


class Inventory(_Frozen):
    """All machines."""

    hosts: tuple[Host, ...] = Field(min_length=1)
    clients: IPv4Address | None = None
    """The address of the harness's machine, as the nodes see it; by default the local address of
    the route to the first host."""
    known_hosts: _Here = Path("~/.ssh/known_hosts").expanduser()
    ssh_config: _Here = Path("~/.ssh/config").expanduser()
    dead_man_s: float = Field(default=15.0, ge=2, le=600)
    """A machine that receives no call for so long heals itself."""
    patience: float = Field(default=1.0, ge=1, le=60)
    """The factor by which all time limits of connections and commands are multiplied."""

    @model_validator(mode="after")
    def _each_node_once(self) -> Self:
        nodes = [host.node for host in self.hosts]
        if twice := sorted({node for node in nodes if nodes.count(node) > 1}):
            raise ValueError(f"node {twice[0]} is on two hosts: give each host its own `node`")
        return self

    def check_nodes(self, nodes: int) -> None:
        """Raise PlanError unless nodes 1 to `nodes` have a host each."""
        have = {host.node for host in self.hosts}
        if lacking := [node for node in range(1, nodes + 1) if node not in have]:
            raise PlanError(
                f"the plan has {nodes} nodes, but the inventory has no host for node {lacking[0]}: "
                "add one, or run fewer nodes (--nodes)"
            )


def load(path: Path) -> Inventory:
    """Read an inventory. Raises PlanError."""
    where = f"inventory {path}"
    try:
        raw = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{where}: is no valid TOML: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise PlanError(
            f"{where}: cannot be read ({reason}); docs/ssh.md shows an example"
        ) from error
    return parse(raw, where)


def parse(raw: Mapping[str, Any], where: str) -> Inventory:
    """Build an inventory from TOML data and apply its defaults to the hosts. Raises PlanError."""
    shared = set(Host.model_fields) - {"node", "host", "address"}
    defaults = {name: value for name, value in raw.items() if name in shared}
    rest = {name: value for name, value in raw.items() if name not in shared}
    hosts = rest.get("hosts")
    if isinstance(hosts, list):
        rest["hosts"] = [{**defaults, **h} if isinstance(h, dict) else h for h in hosts]
    try:
        return Inventory.model_validate(rest)
    except ValidationError as error:
        raise PlanError(
            f"{where}: {describe_problems(error, Inventory, 'the inventory')}"
        ) from error
