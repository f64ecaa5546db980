"""The agent's end: answers calls on a UNIX socket, and heals the machine when nobody calls.

The dead-man's timer: after `dead_man_s` without a word everything broken is healed, the node goes
on, and whoever calls later is told so; after as long four times more the node is ended and nothing
is left. A lost connection alone changes nothing, and a call that is asked for again on the next one
is not done twice.
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

AT_ONCE: Final = 32
"""Calls that are worked on at the same time; more wait."""
REMEMBERED: Final = 512
"""Answered calls that may be asked for again."""
END_AFTER: Final = 5
"""Times `dead_man_s` without a word after which nothing is left."""
_LOOK_S: Final = 0.1


class Boot(NamedTuple):
    """One boot of a machine."""

    boot_id: str
    up_s: float
    """How long its kernel has run."""


class Session(Protocol):
    """What an agent does besides."""

    def ping(self) -> int:
        """Hear a word; the machine's monotonic clock in ns."""
        ...

    def boot(self) -> Boot:
        """Which boot of the machine this is."""
        ...

    def abilities(self) -> frozenset[str]:
        """What can be broken here, by the names of `nemesis.faults.fault.Ability`."""
        ...

    def end(self, keep_data: bool) -> None:
        """End the node, undo everything, and go. Raises TargetError when something is left."""
        ...


class Server:
    """One machine's. `serve` returns when the machine has been taken down."""

    def __init__(self, machine: Machine, path: Path, *, dead_man_s: float) -> None:
        self._machine = machine
        self._path = path
        self._dead_man_s = dead_man_s
        self._parts: Mapping[str, tuple[type, object]] = {
            "Session": (Session, self),
            "LinuxNodes": (Machine, machine),
            "Links": (Links, machine.links),
            "Disks": (Disks, machine.disks),
            "Clocks": (Clocks, machine.clocks),
        }
        self._heard_s = time.monotonic()
        self._healed = ""
        self._ended = threading.Event()
        self._asked: dict[str, Future[bytes]] = {}
        self._mutex = threading.Lock()
        self._pool = ThreadPoolExecutor(AT_ONCE, "call")

    def serve(self) -> None:
        """Answer calls, and watch for silence, until the end. Raises OSError."""
        with socket.socket(socket.AF_UNIX) as listener:
            new = self._path.with_suffix(".new")
            listener.bind(str(new))
            new.chmod(0o600)
            listener.listen()
            listener.settimeout(_LOOK_S)
            new.rename(self._path)  # whoever finds it can connect
            while not self._ended.is_set():
                with contextlib.suppress(TimeoutError):
                    connection, _ = listener.accept()
                    connection.settimeout(None)
                    threading.Thread(target=self._talk, args=(connection,), daemon=True).start()
                self._watch()
        self._pool.shutdown(wait=True)
        time.sleep(_LOOK_S)  # the last answer goes out

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

    # -- silence

    def _watch(self) -> None:
        silent_s = time.monotonic() - self._heard_s
        if silent_s > self._dead_man_s and not self._healed:
            self._healed = f"it healed itself, having heard nothing for {self._dead_man_s:.0f} s"
            log.warning("%s", self._healed)
            for problem in self._machine.heal():
                log.error("not healed: %s", problem)
        if silent_s > END_AFTER * self._dead_man_s:
            log.warning("nobody has come back: nothing is left here")
            try:
                self.end(keep_data=True)
            except TargetError as error:
                log.error("not undone: %s", error)
                os._exit(1)  # the journal is unfinished: the next agent undoes it

    # -- calls

    def _talk(self, connection: socket.socket) -> None:
        sending = threading.Lock()

        def answer(reply: Future[bytes]) -> None:
            with sending, contextlib.suppress(OSError):
                connection.sendall(reply.result())

        with connection, connection.makefile("rb") as lines, contextlib.suppress(OSError):
            for text in lines:
                self._heard_s = time.monotonic()
                self._once(json.loads(text)).add_done_callback(answer)

    def _once(self, asked: calls.Line) -> Future[bytes]:
        with self._mutex:
            number = str(asked["id"])
            if number not in self._asked:
                self._asked[number] = self._pool.submit(self._reply, asked)
            future = self._asked[number]
            if len(self._asked) > REMEMBERED:
                oldest = next(iter(self._asked))
                if self._asked[oldest].done():
                    del self._asked[oldest]
            return future

    def _reply(self, asked: calls.Line) -> bytes:
        try:
            outcome: dict[str, Any] = {"result": self._do(asked)}
        except Exception as error:  # whatever it is, the caller has to know
            log.info("%s: %s", asked["call"], error, exc_info=not isinstance(error, TargetError))
            outcome = calls.failure(error)
        return calls.line({"id": asked["id"], **outcome})

    def _do(self, asked: calls.Line) -> Any:
        part, _, name = str(asked["call"]).partition(".")
        protocol, target = self._parts[part]
        method: Callable[..., Any] = getattr(protocol, name)
        if name.startswith("_"):
            raise TargetError(f"there is no call {asked['call']}")
        if self._healed and part != "Session":
            raise TargetError(self._healed)
        positional, named = calls.arguments(method, asked["arguments"])
        return getattr(target, name)(*positional, **named)
