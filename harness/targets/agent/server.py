"""The agent's server: it answers calls on a UNIX socket, and heals the machine when none arrive.

The dead-man's timer: after `dead_man_s` without a call the agent heals all faults. The node keeps
running, and later calls fail with that reason. After `END_AFTER` times `dead_man_s` the agent ends
the node and removes everything but its files. A lost connection alone changes nothing. A call that
the harness sends again on the next connection is executed only once.
"""

import contextlib
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from harness.targets.agent import calls
from harness.targets.agent.machine import Machine
from harness.targets.base import TargetError
from harness.targets.linux.wall_clock import WallClock
from nemesis.hosts import Clocks, Disks, Links

log = logging.getLogger(__name__)

MAX_CONCURRENT_CALLS: Final = 32
"""Calls that are executed at the same time; further ones wait."""
MAX_REMEMBERED_CALLS: Final = 512
"""Answers that are kept in case the harness sends a call again."""
END_AFTER: Final = 5
"""Times `dead_man_s` without a call after which the agent removes everything and ends."""
_POLL_S: Final = 0.1


class Boot(NamedTuple):
    """One boot of a machine."""

    boot_id: str
    up_s: float
    """Seconds since its kernel started."""


class Session(Protocol):
    """Calls about the agent itself."""

    def ping(self) -> int:
        """Reset the dead-man's timer; return the machine's monotonic clock in ns."""
        ...

    def boot(self) -> Boot:
        """Return the machine's present boot."""
        ...

    def abilities(self) -> frozenset[str]:
        """Return the supported abilities, named as in `nemesis.faults.fault.Ability`."""
        ...

    def end(self, keep_data: bool) -> None:
        """End the node, undo everything, and end the agent. Raises TargetError with the rest."""
        ...


class AgentServer:
    """The server of one machine. `serve` returns after `Session.end`."""

    def __init__(self, machine: Machine, path: Path, *, dead_man_s: float) -> None:
        self._machine = machine
        self._path = path
        self._dead_man_s = dead_man_s
        self._receivers: Mapping[str, tuple[type, object]] = {
            "Session": (Session, self),
            "LinuxNodes": (Machine, machine),
            "Links": (Links, machine.links),
            "Disks": (Disks, machine.disks),
            "Clocks": (Clocks, machine.clocks),
        }
        self._last_call_s = time.monotonic()
        self._healed = ""
        self._ended = threading.Event()
        self._answers: dict[str, Future[bytes]] = {}
        self._mutex = threading.Lock()
        self._pool = ThreadPoolExecutor(MAX_CONCURRENT_CALLS, "call")

    def serve(self) -> None:
        """Answer calls and check the dead-man's timer until `Session.end`. Raises OSError."""
        with socket.socket(socket.AF_UNIX) as listener:
            new = self._path.with_suffix(".new")
            listener.bind(str(new))
            new.chmod(0o600)
            listener.listen()
            listener.settimeout(_POLL_S)
            new.rename(self._path)  # a process that finds the socket can connect to it
            while not self._ended.is_set():
                with contextlib.suppress(TimeoutError):
                    connection, _ = listener.accept()
                    connection.settimeout(None)
                    threading.Thread(
                        target=self._serve_connection, args=(connection,), daemon=True
                    ).start()
                self._check_silence()
        self._pool.shutdown(wait=True)
        time.sleep(_POLL_S)  # so that the last answer is sent

    # -- Session

    def ping(self) -> int:
        """See Session."""
        return time.monotonic_ns()

    def boot(self) -> Boot:
        """See Session."""
        return Boot(WallClock().boot(), time.clock_gettime(time.CLOCK_BOOTTIME))

    def abilities(self) -> frozenset[str]:
        """See Session."""
        machine = self._machine
        parts = (machine.links, machine.disks, machine.clocks)
        return frozenset({"signals", "administration"}).union(*(part.abilities for part in parts))

    def end(self, keep_data: bool) -> None:
        """See Session."""
        self._machine.down(keep_data=keep_data)
        self._ended.set()

    # -- dead-man's timer

    def _check_silence(self) -> None:
        silent_s = time.monotonic() - self._last_call_s
        if silent_s > self._dead_man_s and not self._healed:
            self._healed = (
                f"it received no call for {self._dead_man_s:.0f} s (dead_man_s) and has "
                "healed all faults, so the run cannot go on"
            )
            log.warning("%s", self._healed)
            for problem in self._machine.heal():
                log.error("not healed: %s", problem)
        if silent_s > END_AFTER * self._dead_man_s:
            log.warning("no call for %.0f s: the agent removes everything", silent_s)
            try:
                self.end(keep_data=True)
            except TargetError as error:
                log.error("not undone: %s", error)
                os._exit(1)  # the journal is unfinished: the next agent undoes it

    # -- calls

    def _serve_connection(self, connection: socket.socket) -> None:
        sending = threading.Lock()

        def send(reply: Future[bytes]) -> None:
            with sending, contextlib.suppress(OSError):
                connection.sendall(reply.result())

        with connection, connection.makefile("rb") as lines, contextlib.suppress(OSError):
            for text in lines:
                self._last_call_s = time.monotonic()
                self._answer_once(json.loads(text)).add_done_callback(send)

    def _answer_once(self, request: calls.Line) -> Future[bytes]:
        with self._mutex:
            number = str(request["id"])
            if number not in self._answers:
                self._answers[number] = self._pool.submit(self._reply, request)
            future = self._answers[number]
            if len(self._answers) > MAX_REMEMBERED_CALLS:
                oldest = next(iter(self._answers))
                if self._answers[oldest].done():
                    del self._answers[oldest]
            return future

    def _reply(self, request: calls.Line) -> bytes:
        try:
            fields: dict[str, Any] = {"result": self._execute(request)}
        except Exception as error:  # whatever failed, the caller must know
            log.info("%s: %s", request["call"], error, exc_info=not isinstance(error, TargetError))
            fields = calls.error_reply(error)
        return calls.line({"id": request["id"], **fields})

    def _execute(self, request: calls.Line) -> Any:
        part, _, name = str(request["call"]).partition(".")
        protocol, target = self._receivers[part]
        method: Callable[..., Any] = getattr(protocol, name)
        if name.startswith("_"):
            raise TargetError(f"there is no call {request['call']}")
        if self._healed and part != "Session":
            raise TargetError(self._healed)
        positional, named = calls.arguments(method, request["arguments"])
        return getattr(target, name)(*positional, **named)
