"""Machines that are containers. See `harness.targets.linux.machines.Machines`.

A container's first process does nothing. A node's process is started with `docker exec`, and known
by its pid on this machine. Shared files have the same paths inside and outside: the node's
directory, where disks are mounted and unmounted during the run, its clock, and the files it reads.
"""

import json
import resource
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from harness.recording.journal import Journal
from harness.targets.base import TargetError
from harness.targets.docker import daemon
from harness.targets.docker.image import PACKAGES
from harness.targets.docker.undo import RUN_LABEL, UNDO, remove
from harness.targets.linux import clocks, kernel, processes
from harness.targets.linux import undo as linux
from harness.targets.linux.disks import throttles
from harness.targets.linux.disks.throttles import ControlGroup
from harness.targets.linux.network import namespaces
from harness.targets.linux.processes import AdoptedProcess
from harness.targets.linux.recorder import Recorder

if TYPE_CHECKING:
    from docker.types import Mount

MACHINES: Final = "docker.machines"
"""Kind of the journal's record of the containers' settings; it needs no undoing."""
# `env` sets the variables: LD_PRELOAD (libfaketime) must hold for the node, not for the shell.
_START: Final = 'log=$1; shift; exec env "$@" >>"$log" 2>&1'


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFiles:
    """Files of this machine that every container of a run contains, at the same paths."""

    read: tuple[Path, ...] = ()
    """Files and directories that nodes read."""
    clocks: Path | None = None
    """The directory of the nodes' clocks, if the nodes have their own clocks."""

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which Python finds the shared packages and those of the image."""
        roots = dict.fromkeys(
            str(path.parent) for path in self.read if (path / "__init__.py").exists()
        )
        return {"PYTHONPATH": ":".join([*roots, PACKAGES]), "PYTHONDONTWRITEBYTECODE": "1"}

    def mounts(self, files: Path) -> "list[Mount]":
        """Return the mounts of a container whose node's files are in `files`."""
        from docker.types import Mount

        def bound(path: Path, **how: Any) -> Mount:
            return Mount(str(path), str(path), type="bind", **how)

        # rslave: disks that are mounted and unmounted outside must change inside too.
        mounts = [bound(files, propagation="rslave")]
        read = [*self.read]
        if self.clocks is not None and (library := clocks.library()) is not None:
            # Not read-only, because the access time of a clock's file shows that it was read.
            mounts.append(bound(self.clocks))
            read.append(library.parent)
        return mounts + [bound(path, read_only=True) for path in dict.fromkeys(read)]


class Containers:
    """The containers of one run's nodes."""

    python = "python3"
    undo = UNDO

    def __init__(
        self, address: str, image: str, run_id: str, journal: Recorder, shared: SharedFiles
    ) -> None:
        """`address` is the daemon's, `image` the containers' image."""
        self._address = address
        self._image = image
        self._run_id = run_id
        self._journal = journal
        self._shared = shared

    @classmethod
    def attach(cls, run_id: str, journal: Journal) -> Self:
        """Return the containers that another process made, by its journal. Raises TargetError."""
        for record in journal.records():
            if record["kind"] == MACHINES:
                fields = json.loads(str(record["share"]))
                shared = SharedFiles(
                    read=tuple(map(Path, fields["read"])),
                    clocks=Path(fields["clocks"]) if fields["clocks"] else None,
                )
                return cls(str(record["daemon"]), str(record["image"]), run_id, journal, shared)
        raise TargetError(f"{journal.path} records no containers: start a cluster first")

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables of a node, in addition to the image's."""
        return self._shared.environment

    def prepare(self, place: Path) -> None:
        """Make mounts below the directory appear in the containers too."""
        place.mkdir(parents=True, exist_ok=True)
        if not kernel.is_mounted(place):
            self._journal.record(
                MACHINES,
                daemon=self._address,
                image=self._image,
                share=json.dumps(asdict(self._shared), default=str),
            )
            self._journal.record("docker.shared", path=str(place))
            kernel.mount(str(place), place, None, kernel.MS_BIND)
            kernel.mount("none", place, None, kernel.MS_SHARED)

    def make(self, node: int, namespace: Path, files: Path) -> None:
        """Start a container without a network, and name its network namespace."""
        if self._shared.clocks is not None:
            self._shared.clocks.mkdir(exist_ok=True)
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
                tmpfs={"/tmp": "exec"},  # the JVM unpacks and loads libraries there
                mounts=self._shared.mounts(files),
                environment=self._shared.environment,
                ulimits=[Ulimit(name="nofile", soft=soft, hard=hard)],
                log_config=LogConfig(type=LogConfig.types.NONE),
            )
            namespaces.adopt(namespace, daemon.first_process(container, self._address))

    def remove(self, node: int, namespace: Path) -> None:
        """Remove the container, and the name of its namespace."""
        remove(self._address, namespace.name, self._run_id)
        linux.UNDO["local.netns"]({"path": str(namespace)})

    def spawn(
        self, node: int, namespace: Path, argv: Sequence[str], env: Mapping[str, str], log: Path
    ) -> AdoptedProcess:
        """Start a process in the container with `docker exec`."""
        assignments = [f"{name}={value}" for name, value in env.items()]
        command = ["/bin/sh", "-c", _START, "sh", str(log), *assignments, *argv]
        with daemon.client(self._address) as client:
            started = client.api.exec_create(namespace.name, command, user="0:0")["Id"]
            client.api.exec_start(started, detach=True)
            pid = client.api.exec_inspect(started)["Pid"]
        identity = processes.identify(pid) if pid else None
        return AdoptedProcess(
            identity or processes.UNKNOWN_PROCESS, partial(self._exit_code, started)
        )

    def groups(self, node: int, namespace: Path) -> Sequence[ControlGroup]:
        """Return the control groups of the container and of this process."""
        with daemon.client(self._address) as client:
            container = client.containers.get(namespace.name)
            pid = daemon.first_process(container, self._address)
        return list(dict.fromkeys((*throttles.groups(), *throttles.groups(pid))))

    def enter(self, node: int, namespace: Path) -> str:
        """Return the command that opens a shell in the container."""
        return f"docker --host {self._address} exec -it {namespace.name} sh"

    def _exit_code(self, started: str) -> int | None:
        """Return the exit code of a process that has ended, as the daemon reports it."""
        with daemon.client(self._address) as client:
            return daemon.exit_code(partial(client.api.exec_inspect, started))
