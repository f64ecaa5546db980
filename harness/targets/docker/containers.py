"""Machines that are containers. See `harness.targets.linux.machines.Machines`.

A container's first process does nothing; a node's process is started beside it, and seen from here
by its number on this machine. All that a container shares with this machine is at the same paths:
the node's own directory, into which disks come and go, its clock, and what it reads.
"""

import json
import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from harness.recording.journal import Journal
from harness.targets.base import TargetError, Unsupported
from harness.targets.docker import daemon
from harness.targets.docker.image import PACKAGES
from harness.targets.docker.undo import RUN_LABEL, UNDO, remove
from harness.targets.linux import clocks, kernel, processes
from harness.targets.linux import undo as linux
from harness.targets.linux.disks import throttles
from harness.targets.linux.disks.throttles import Group
from harness.targets.linux.network import namespaces
from harness.targets.linux.network.network import Recorder
from harness.targets.linux.processes import Adopted

if TYPE_CHECKING:
    from docker.models.containers import Container
    from docker.types import Mount

MACHINES: Final = "docker.machines"
"""Kind of the journal's record of what the containers are like; nothing to undo."""
_END_TIMEOUT_S: Final = 5.0
# The library for the clock is the node's alone, so it is told to env, not to the shell.
_START: Final = 'log=$1; shift; exec env "$@" >>"$log" 2>&1'
_KILLED: Final = 128
"""A process that was ended by a signal has this and the signal's number as its exit code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What of this machine is in every container of a run, at the same paths."""

    read: tuple[Path, ...] = ()
    """Files and directories that nodes read."""
    clocks: Path | None = None
    """The directory of the nodes' clocks, where they have some."""

    @property
    def environment(self) -> dict[str, str]:
        """With which Python finds the packages that are shared, and those of the image."""
        roots = dict.fromkeys(
            str(path.parent) for path in self.read if (path / "__init__.py").exists()
        )
        return {"PYTHONPATH": ":".join([*roots, PACKAGES]), "PYTHONDONTWRITEBYTECODE": "1"}

    def mounts(self, files: Path) -> "list[Mount]":
        """Of the container whose node's files are in `files`."""
        from docker.types import Mount

        def bound(path: Path, **how: Any) -> Mount:
            return Mount(str(path), str(path), type="bind", **how)

        # Disks come and go outside, and are to do so inside.
        mounts = [bound(files, propagation="rslave")]
        read = [*self.read]
        if self.clocks is not None and (library := clocks.library()) is not None:
            # Not read-only: that a clock was read shows by its file's time of access.
            mounts.append(bound(self.clocks))
            read.append(library.parent)
        return mounts + [bound(path, read_only=True) for path in dict.fromkeys(read)]


class Containers:
    """The containers of one run's nodes."""

    python = "python3"
    undo = UNDO

    def __init__(
        self, address: str, image: str, run_id: str, journal: Recorder, share: Share
    ) -> None:
        """`address` is the daemon's, `image` what the containers are made from."""
        self._address = address
        self._image = image
        self._run_id = run_id
        self._journal = journal
        self._share = share

    @classmethod
    def attach(cls, run_id: str, journal: Journal) -> Self:
        """Those that another process has made, as its journal tells. Raises TargetError."""
        for record in journal.records():
            if record["kind"] == MACHINES:
                told = json.loads(str(record["share"]))
                share = Share(
                    read=tuple(map(Path, told["read"])),
                    clocks=Path(told["clocks"]) if told["clocks"] else None,
                )
                return cls(str(record["daemon"]), str(record["image"]), run_id, journal, share)
        raise TargetError(f"{journal.path} tells of no containers")

    @property
    def environment(self) -> Mapping[str, str]:
        """Beside what the image sets."""
        return self._share.environment

    def prepare(self, place: Path) -> None:
        """Let what is mounted below the directory be mounted in the containers too."""
        place.mkdir(parents=True, exist_ok=True)
        if not kernel.is_mounted(place):
            self._journal.record(
                MACHINES,
                daemon=self._address,
                image=self._image,
                share=json.dumps(asdict(self._share), default=str),
            )
            self._journal.record("docker.shared", path=str(place))
            kernel.mount(str(place), place, None, kernel.MS_BIND)
            kernel.mount("none", place, None, kernel.MS_SHARED)

    def make(self, node: int, namespace: Path, files: Path) -> None:
        """Start a container without a network, and name its network namespace."""
        if self._share.clocks is not None:
            self._share.clocks.mkdir(exist_ok=True)
        self._journal.record("local.netns", path=str(namespace))
        self._journal.record(
            "docker.container", name=namespace.name, daemon=self._address, run_id=self._run_id
        )
        with daemon.client(self._address) as client:
            from docker.types import LogConfig, Ulimit

            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            container = client.containers.run(
                self._image,
                ["sleep", "infinity"],
                entrypoint=[],
                name=namespace.name,
                hostname=f"n{node}",
                labels={RUN_LABEL: self._run_id},
                detach=True,
                init=True,
                user="0:0",
                userns_mode="host",
                working_dir="/",
                network_mode="none",
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                read_only=True,
                tmpfs={"/tmp": "exec"},  # where the JVM puts libraries that it unpacks
                mounts=self._share.mounts(files),
                environment=self._share.environment,
                ulimits=[Ulimit(name="nofile", soft=soft, hard=hard)],
                log_config=LogConfig(type=LogConfig.types.NONE),
            )
            namespaces.adopt(namespace, self._first_process(container))

    def remove(self, node: int, namespace: Path) -> None:
        """Remove the container, and the name of its namespace."""
        remove(self._address, namespace.name, self._run_id)
        linux.UNDO["local.netns"]({"path": str(namespace)})

    def spawn(
        self, node: int, namespace: Path, argv: Sequence[str], env: Mapping[str, str], log: Path
    ) -> Adopted:
        """Beside the container's first process."""
        assignments = [f"{name}={value}" for name, value in env.items()]
        command = ["/bin/sh", "-c", _START, "sh", str(log), *assignments, *argv]
        with daemon.client(self._address) as client:
            started = client.api.exec_create(namespace.name, command, user="0:0")["Id"]
            client.api.exec_start(started, detach=True)
            pid = client.api.exec_inspect(started)["Pid"]
        identity = processes.identify(pid) if pid else None
        return Adopted(identity or processes.NOBODY, partial(self._exit_code, started))

    def groups(self, node: int, namespace: Path) -> Sequence[Group]:
        """Those of the container, and this process's own."""
        with daemon.client(self._address) as client:
            pid = self._first_process(client.containers.get(namespace.name))
        return list(dict.fromkeys((*throttles.groups(), *throttles.groups(pid))))

    def enter(self, node: int, namespace: Path) -> str:
        """A shell in the container."""
        return f"docker --host {self._address} exec -it {namespace.name} sh"

    def _first_process(self, container: "Container") -> int:
        """Its number on this machine. Raises Unsupported where it is not on this machine."""
        container.reload()
        pid = int(container.attrs["State"]["Pid"])
        try:
            ours = str(container.id) in Path(f"/proc/{pid}/cgroup").read_text()
        except OSError:
            ours = False
        if not ours:
            raise Unsupported(
                f"the containers of the Docker daemon at {self._address} are not among the "
                "processes of this machine: run highwater where the daemon runs"
            )
        return pid

    def _exit_code(self, started: str) -> int | None:
        """How a process that is gone ended, as its daemon has heard by now."""
        with daemon.client(self._address) as client:
            inspect: Callable[[], Mapping[str, object]] = partial(client.api.exec_inspect, started)
            kernel.wait_until(lambda: not inspect()["Running"], _END_TIMEOUT_S)
            code = inspect()["ExitCode"]
        if not isinstance(code, int):
            return None
        return _KILLED - code if code > _KILLED else code
