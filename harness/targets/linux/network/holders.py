"""The packet holders: processes that delay the packets of slow links, one for each such machine.

A holder is started in the machine's namespace before the first slow link. It stays for later ones,
because starting and ending it would make a fault slow. The journal names it like every process of
the run. It ends with its machine, and by itself when the harness dies. The process itself is
`harness.targets.linux.packets.packet_holder`.
"""

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import harness
from harness.targets.base import TargetError
from harness.targets.linux import processes
from harness.targets.linux.network import firewall, namespaces
from harness.targets.linux.packets.netlink import NETFILTER, Netlink
from harness.targets.linux.packets.packet_holder import PacketHolder
from harness.targets.linux.recorder import Recorder

ANSWER_TIMEOUT_S: Final = 10.0
"""How long a holder may take to start and to answer; usually some milliseconds."""
_SOURCES = Path(harness.__file__).parents[1]
# -S skips `site`: the process imports no installed package and starts faster without it.
_COMMAND = (sys.executable, "-S", "-m", "harness.targets.linux.packets.packet_holder")


class Holders:
    """The packet holders of one run. Any thread may call; a holder serves one call at a time."""

    def __init__(self, journal: Recorder) -> None:
        """`journal` records each holder before it gets its first command."""
        self._journal = journal
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._mutexes: dict[int, threading.RLock] = {}

    def runs(self, machine: int) -> bool:
        """Whether the machine has a running holder."""
        holder = self._running.get(machine)
        return holder is not None and holder.poll() is None

    def command(self, machine: int, netns: Path, **fields: object) -> Mapping[str, Any]:
        """Send a command to the machine's holder and return the answer; start it if need be.

        Raises TargetError when the holder does not answer or reports an error.
        """
        with self._mutex(machine):
            if not self.runs(machine):
                self.end(machine)
                self._running[machine] = self._spawn(netns)
            return self._answer(self._running[machine], netns, fields)

    def start(self, machine: int, netns: Path) -> None:
        """Start the machine's holder unless it runs. Raises TargetError when it does not answer."""
        self.command(machine, netns, do="show", queue=0)

    def _answer(
        self, holder: subprocess.Popen[bytes], netns: Path, fields: Mapping[str, object]
    ) -> Mapping[str, Any]:
        assert holder.stdin is not None
        assert holder.stdout is not None
        try:
            holder.stdin.write(json.dumps(fields).encode() + b"\n")
            ready, _, _ = select.select([holder.stdout], [], [], ANSWER_TIMEOUT_S)
            line = holder.stdout.readline() if ready else b""
        except BrokenPipeError:
            line = b""
        answer: dict[str, Any] = json.loads(line) if line else {"error": "it does not answer"}
        if "error" in answer:
            raise TargetError(f"the packet holder of {netns.name} failed: {answer['error']}")
        return answer

    def end(self, machine: int) -> None:
        """End the machine's holder, which passes on its packets first."""
        with self._mutex(machine):
            holder = self._running.pop(machine, None)
            if holder is not None:
                self._end(holder)

    def end_all(self) -> None:
        """End every holder."""
        for machine in list(self._running):
            self.end(machine)

    def _mutex(self, machine: int) -> threading.RLock:
        return self._mutexes.setdefault(machine, threading.RLock())

    def _end(self, holder: subprocess.Popen[bytes]) -> None:
        assert holder.stdin is not None
        assert holder.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            holder.stdin.close()
        try:
            holder.wait(ANSWER_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            holder.kill()
            holder.wait(ANSWER_TIMEOUT_S)
        holder.stdout.close()

    def _spawn(self, netns: Path) -> subprocess.Popen[bytes]:
        with namespaces.entered(netns):
            holder = subprocess.Popen(
                _COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(_SOURCES)},
                start_new_session=True,
            )
        if (identity := processes.identify(holder.pid)) is not None:
            self._journal.record("local.process", machine=netns.name, **asdict(identity))
        return holder


def probe() -> None:
    """Load every kind of rule for bad links into the thread's network namespace, where they stay.

    Raises OSError where the kernel lacks a part.
    """
    address = "198.18.0.1"
    rules = (
        firewall.lose("lost", 0.5, address),
        firewall.double("doubled", 0.5, address, address),
        firewall.hold("held", 1, address),
    )
    with Netlink(NETFILTER) as netlink:
        added = [firewall.addition("probe", rule) for rule in rules]
        netlink.transaction(firewall.NFTABLES, [*firewall.preparation("probe"), *added])
    holder = PacketHolder()
    try:
        holder.execute({"do": "set", "queue": 1, "layer": "probe", "what": {}})
    finally:
        holder.close()
