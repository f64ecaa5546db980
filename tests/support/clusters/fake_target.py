"""A target without machines: clients run on loopback, and nodes are recorded but not started."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from tests.support.nemesis.fakes import FakeClients, FakeMachines, Trace


class FakeClientProcesses(FakeClients):
    """Client processes that are recorded but not paused."""

    def __init__(self, machines: FakeMachines) -> None:
        super().__init__(machines)
        self.adopted: list[subprocess.Popen[bytes]] = []

    def adopt(self, process: subprocess.Popen[bytes]) -> None:
        self.adopted.append(process)


class FakeTarget:
    """The part of harness.targets.base.Target that tests of the harness need."""

    abilities: frozenset[str] = frozenset()

    def __init__(self, root: Path, nodes: Sequence[int] = (1, 2, 3)) -> None:
        self.root = root
        self.nodes = tuple(nodes)
        self.commands: dict[int, tuple[tuple[str, ...], Mapping[str, str], Path]] = {}
        self.started: list[int] = []
        self.stopped: list[int] = []
        machines = FakeMachines(Trace(), nodes)
        self.clients = FakeClientProcesses(machines)
        self.links, self.disks, self.clocks = machines.links, machines.disks, machines.clocks
        self.power = machines.power

    def up(self) -> None: ...

    def down(self, *, keep_data: bool = False) -> None: ...

    def add_node(self, node: int) -> None: ...

    def remove_node(self, node: int, *, keep_data: bool = False) -> None: ...

    def node_ids(self) -> Sequence[int]:
        return self.nodes

    def address(self, node: int) -> str:
        return f"127.0.0.{node}"

    def data_dir(self, node: int) -> Path:
        return self.home(node) / "data"

    def home(self, node: int) -> Path:
        return self.root / "nodes" / str(node)

    def python(self, node: int) -> str:
        return sys.executable

    def environment(self, node: int) -> Mapping[str, str]:
        return os.environ

    def place(self, node: int, path: Path) -> Path:
        return path

    def publish(self, node: int) -> None: ...

    def fetch(self, node: int, *names: str) -> None: ...

    def set_command(
        self, node: int, argv: Sequence[str], env: Mapping[str, str], log_path: Path
    ) -> None:
        self.commands[node] = (tuple(argv), env, log_path)

    def start(self, node: int) -> None:
        self.started.append(node)

    def stop(self, node: int, timeout_s: float = 10.0) -> bool:
        self.stopped.append(node)
        return node != 3

    def terminate(self, node: int) -> None: ...

    def exit_code(self, node: int) -> int | None:
        return None

    def kill(self, node: int) -> None: ...

    def pause(self, node: int) -> None: ...

    def resume(self, node: int) -> None: ...

    def is_running(self, node: int) -> bool:
        return node in self.started

    def take_unexpected_exits(self) -> Sequence[tuple[int, int | None]]:
        return ()

    def state(self, node: int) -> str:
        return ""

    def spawn_client(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        log_path: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL)

    def in_client_netns(self) -> AbstractContextManager[None]:
        return nullcontext()
