"""The harness's end of an agent: calls that outlive a lost connection, for a while.

Any thread may call; calls overtake each other. While a connection is lost, calls wait and are asked
again on the next one, which the agent answers without doing anything twice. When none is had for as
long as the machine waits before it heals itself, every call fails, now and from then on.
"""

import contextlib
import json
import logging
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as Late
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from harness.targets.agent import calls
from harness.targets.agent.server import Session
from harness.targets.base import TargetError

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

CALL_TIMEOUT_S: Final = 120.0
"""No call takes nearly as long; it is there for a machine that hangs."""
_AGAIN_S: Final = 0.3


class Stream(Protocol):
    """A connection to the agent."""

    def readline(self) -> bytes:
        """The next line; empty at the end. May raise OSError."""
        ...

    def write(self, line: bytes) -> None:
        """Send all of it. Raises OSError."""
        ...

    def close(self) -> None:
        """End it; whoever reads is let go."""
        ...


class AgentClient:
    """Calls to one machine's agent. `dial` connects, and raises TargetError or OSError."""

    def __init__(self, dial: Callable[[], Stream], *, dead_man_s: float, label: str) -> None:
        self._dial = dial
        self._dead_man_s = dead_man_s
        self._label = label
        self._session = uuid.uuid4().hex[:8]
        self._number = 0
        self._waiting: dict[str, tuple[bytes, Future[calls.Line]]] = {}
        self._stream: Stream | None = None
        self._mutex = threading.Lock()
        self._closed = threading.Event()
        self._lost: str | None = None
        self._ahead_ns: tuple[int, int] | None = None
        """How long the quickest ping took, and how far the machine's monotonic clock was ahead."""
        self._threads = [
            threading.Thread(target=work, name=f"{label} {work.__name__}", daemon=True)
            for work in (self._converse, self._keep_alive)
        ]
        for thread in self._threads:
            thread.start()

    def call(
        self, method: Callable[Concatenate[Any, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Have the machine do it. Raises what it raised there; TargetError when it is lost."""
        future: Future[calls.Line] = Future()
        with self._mutex:
            if self._lost is not None:
                raise TargetError(self._lost)
            self._number += 1
            number = f"{self._session}-{self._number}"
            line = calls.request(number, method, args, kwargs)
            self._waiting[number] = line, future
            stream = self._stream
        if stream is not None:
            with contextlib.suppress(OSError):  # it is asked again on the next connection
                stream.write(line)
        try:
            reply = future.result(CALL_TIMEOUT_S)
        except Late:
            raise TargetError(
                f"{self._label} has not answered {method.__qualname__} for {CALL_TIMEOUT_S:.0f} s"
            ) from None
        finally:
            with self._mutex:
                self._waiting.pop(number, None)
        if "error" in reply:
            raise calls.raised(reply, self._label)
        return calls.result(method, reply["result"])  # type: ignore[no-any-return]

    def here_ns(self, there_ns: int) -> int:
        """A moment of the machine's monotonic clock by ours, as well as pings can tell."""
        return there_ns - (self._ahead_ns[1] if self._ahead_ns is not None else 0)

    def close(self) -> None:
        """Let go; the agent is not told."""
        self._closed.set()
        with self._mutex:
            stream = self._stream
        if stream is not None:
            stream.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(10)

    # -- the two threads

    def _converse(self) -> None:
        heard_s = time.monotonic()
        why = ""
        while not self._closed.is_set():
            if time.monotonic() - heard_s > self._dead_man_s:
                self._give_up(f"{self._label} is lost since {self._dead_man_s:.0f} s: {why}")
                return
            try:
                stream = self._dial()
            except (TargetError, OSError) as error:
                why = str(error)
                self._closed.wait(_AGAIN_S)
                continue
            try:
                with self._mutex:
                    self._stream = stream
                    again = [line for line, _ in self._waiting.values()]
                for line in again:
                    stream.write(line)
                while text := stream.readline():
                    heard_s = time.monotonic()
                    self._take(json.loads(text))
                why = "the connection ended"
            except (OSError, ValueError) as error:
                why = str(error) or type(error).__name__
            finally:
                with self._mutex:
                    self._stream = None
                stream.close()
            if not self._closed.wait(_AGAIN_S):
                log.warning("%s: %s; connecting again", self._label, why)
        self._give_up(f"{self._label} was let go")

    def _keep_alive(self) -> None:
        while not self._closed.wait(self._dead_man_s / 5):
            try:
                self.ping()
            except (TargetError, OSError):
                continue

    def ping(self) -> None:
        """Tell the machine that we live, and learn what its monotonic clock shows."""
        before_ns = time.monotonic_ns()
        there_ns = self.call(Session.ping)
        took_ns = time.monotonic_ns() - before_ns
        if self._ahead_ns is None or took_ns < self._ahead_ns[0]:
            self._ahead_ns = took_ns, there_ns - (before_ns + took_ns // 2)

    def _take(self, reply: calls.Line) -> None:
        with self._mutex:
            _, future = self._waiting.get(str(reply.get("id")), (b"", None))
        if future is not None:
            with contextlib.suppress(InvalidStateError):
                future.set_result(reply)

    def _give_up(self, why: str) -> None:
        with self._mutex:
            self._lost = why
            waiting = [future for _, future in self._waiting.values()]
        for future in waiting:
            with contextlib.suppress(InvalidStateError):
                future.set_exception(TargetError(why))
