"""The inventory: which machines the SSH target may use, and how each is reached. See docs/ssh.md.

A TOML file. What stands at its top holds for every host that does not say otherwise; what neither
says is taken from the user's ssh configuration, as `ssh` itself would take it.
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
    """The private key's file; without one, ssh-agent's keys and the user's default ones."""
    jump: str | None = None
    """A host on the way there: [user@]host[:port], or a `Host` of the ssh configuration."""
    sudo: bool | None = None
    """Whether root's part is done by `sudo -n`; by default where the user is not root."""
    address: IPv4Address | None = None
    """The IPv4 address that nodes and clients use; by default the one that ssh connects to."""
    directory: PurePosixPath = PurePosixPath("/var/lib/highwater")
    """Everything of ours there is below it: what is installed, and the runs' nodes."""
    python: str = "python3"
    clock: Literal["process", "machine"] = "process"
    """What a clock fault sets: what the node's process sees (libfaketime), or the machine's own."""

    @property
    def label(self) -> str:
        """For people."""
        return f"node {self.node}'s host {self.host}"


class Inventory(_Frozen):
    """All machines. Keys of the defaults are those of a host, but `node` and `host`."""

    hosts: tuple[Host, ...] = Field(min_length=1)
    clients: IPv4Address | None = None
    """The address of the harness's machine, as the nodes see it; by default found by asking which
    one leads to the first host."""
    known_hosts: _Here = Path("~/.ssh/known_hosts").expanduser()
    ssh_config: _Here = Path("~/.ssh/config").expanduser()
    dead_man_s: float = Field(default=15.0, ge=2, le=600)
    """When a machine has heard nothing for so long, it heals itself."""
    patience: float = Field(default=1.0, ge=1, le=60)
    """How many times longer than usual connecting, and a command, may take."""

    @model_validator(mode="after")
    def _each_node_once(self) -> Self:
        nodes = [host.node for host in self.hosts]
        if twice := sorted({node for node in nodes if nodes.count(node) > 1}):
            raise ValueError(f"node {twice[0]} is on two hosts")
        return self

    def check_nodes(self, nodes: int) -> None:
        """Raises PlanError when there are not machines for nodes 1 to `nodes`."""
        have = {host.node for host in self.hosts}
        if lacking := [node for node in range(1, nodes + 1) if node not in have]:
            raise PlanError(
                f"the plan has {nodes} nodes and the inventory no host for node {lacking[0]}: add "
                f"it, or run fewer nodes (--nodes)"
            )


def load(path: Path) -> Inventory:
    """Read an inventory. Raises PlanError."""
    where = f"inventory {path}"
    try:
        raw = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{where}: is no valid TOML: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise PlanError(f"{where}: cannot be read ({reason}); docs/ssh.md shows one") from error
    return parse(raw, where)


def parse(raw: Mapping[str, Any], where: str) -> Inventory:
    """An inventory from raw data, defaults put into its hosts. Raises PlanError."""
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
