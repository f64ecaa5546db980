"""The network namespace of a tested program that runs in containers.

Docker gives a container the network of another container, but not a namespace that somebody else
made. So a container that does nothing holds the namespace (`idle_program`), the target connects it
to the run's network like every other machine, and the containers of the program join it.
"""

import io
import platform
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.targets.base import Unsupported
from harness.targets.docker import daemon
from harness.targets.docker.idle_program import idle_program
from harness.targets.docker.undo import PROGRAM, PROGRAM_LABEL, RUN_LABEL, UNDO
from harness.targets.linux.network import namespaces
from harness.targets.linux.recorder import Recorder
from harness.targets.linux.undo import Undo

_IDLE: Final = "highwater-idle"
"""The name of the program in the container, in its root directory."""


class ProgramNetwork:
    """Makes the container that holds the network. See `MachineMaker`."""

    undo: Mapping[str, Undo] = UNDO

    def __init__(self, address: str, image: str, run_id: str, journal: Recorder) -> None:
        """`address` is the daemon's, `image` the program's, which the daemon has."""
        self._address = address
        self._image = image
        self._run_id = run_id
        self._journal = journal

    def make(self, node: int, namespace: Path, files: Path) -> None:
        """Start the container, and name its network namespace. The container has the same name.

        Raises OSError, TargetError.
        """
        idle = idle_program(platform.machine())
        if idle is None:
            raise Unsupported(
                f"a program in a container needs a machine of x86_64 or aarch64, and this one is "
                f"{platform.machine()}: give the program as a command, without image"
            )
        self._journal.record("local.netns", path=str(namespace))
        self._journal.record(PROGRAM, daemon=self._address, run_id=self._run_id)
        with daemon.client(self._address) as client:
            container = client.containers.create(
                self._image,
                [],
                entrypoint=[f"/{_IDLE}"],
                name=namespace.name,
                labels={RUN_LABEL: self._run_id, PROGRAM_LABEL: "network"},
                user="0:0",
                userns_mode="host",
                working_dir="/",
                network_mode="none",
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
            )
            container.put_archive("/", _packed(idle))
            container.start()
            namespaces.adopt(namespace, daemon.first_process(container, self._address))


def _packed(idle: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        info = tarfile.TarInfo(_IDLE)
        info.size, info.mode = len(idle), 0o755
        tar.addfile(info, io.BytesIO(idle))
    return packed.getvalue()
