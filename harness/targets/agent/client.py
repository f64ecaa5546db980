"""The harness's side of an agent: calls that survive a lost connection for some time.

Any thread may call, and replies may arrive in any order. While the connection is lost, calls wait;
they are sent again on the next connection, and the agent executes each only once. When no
connection succeeds for `dead_man_s`, after which the machine heals itself, all calls fail from then
on.
"""

import contextlib
import json
import logging
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from harness.targets.agent import calls
from harness.targets.agent.server import Session
from harness.targets.base import TargetError

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

CALL_TIMEOUT_S: Final = 120.0
"""A bound for machines that hang; no call takes nearly as long."""
_RETRY_S: Final = 0.3


class Stream(Protocol):
    """A connection to the agent."""

    def readline(self) -> bytes:
        """The next line; empty at the end. May raise OSError."""
        ...

    def write(self, line: bytes) -> None:
        """Send all of it. Raises OSError."""
        ...

    def close(self) -> None:
        """Close the connection; a blocked `readline` returns."""
        ...


class AgentClient:
    """Calls to one machine's agent. `connect` may raise TargetError or OSError."""

    def __init__(self, connect: Callable[[], Stream], *, dead_man_s: float, label: str) -> None:
        self._connect = connect
        self._dead_man_s = dead_man_s
        self._label = label
        self._session = uuid.uuid4().hex[:8]
        self._number = 0
        self._waiting: dict[str, tuple[bytes, Future[calls.Line]]] = {}
        self._stream: Stream | None = None
        self._mutex = threading.Lock()
        self._closed = threading.Event()
        self._failure: str | None = None
        """Why all calls fail, once the agent is lost."""
        self._clock_offset_ns: tuple[int, int] | None = None
        """The duration of the quickest ping, and the lead of the machine's monotonic clock then."""
        self._threads = [
            threading.Thread(target=work, name=f"{label} {work.__name__}", daemon=True)
            for work in (self._read_replies, self._keep_alive)
        ]
        for thread in self._threads:
            thread.start()

    def call(
        self, method: Callable[Concatenate[Any, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call a method on the machine. Raises its error; TargetError without an agent."""
        future: Future[calls.Line] = Future()
        with self._mutex:
            if self._failure is not None:
                raise TargetError(self._failure)
            self._number += 1
            number = f"{self._session}-{self._number}"
            line = calls.request(number, method, args, kwargs)
            self._waiting[number] = line, future
            stream = self._stream
        if stream is not None:
            with contextlib.suppress(OSError):  # the next connection sends it again
                stream.write(line)
        try:
            reply = future.result(CALL_TIMEOUT_S)
        except FutureTimeoutError:
            raise TargetError(
                f"{self._label} has not answered {method.__qualname__} for {CALL_TIMEOUT_S:.0f} s"
            ) from None
        finally:
            with self._mutex:
                self._waiting.pop(number, None)
        if "error" in reply:
            raise calls.exception_of(reply, self._label)
        return calls.result(method, reply["result"])  # type: ignore[no-any-return]

    def to_local_ns(self, there_ns: int) -> int:
        """Convert a time of the machine's monotonic clock to ours, as exactly as pings allow."""
        return there_ns - (self._clock_offset_ns[1] if self._clock_offset_ns is not None else 0)

    def close(self) -> None:
        """Close the connection without a message to the agent."""
        self._closed.set()
        with self._mutex:
            stream = self._stream
        if stream is not None:
            stream.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(10)

    # -- the two threads

    def _read_replies(self) -> None:
        last_reply_s = time.monotonic()
        why = ""
        while not self._closed.is_set():
            if time.monotonic() - last_reply_s > self._dead_man_s:
                self._fail_all(
                    f"{self._label} has been unreachable for {self._dead_man_s:.0f} s: {why}"
                )
                return
            try:
                stream = self._connect()
            except (TargetError, OSError) as error:
                why = str(error)
                self._closed.wait(_RETRY_S)
                continue
            try:
                with self._mutex:
                    self._stream = stream
                    unanswered = [line for line, _ in self._waiting.values()]
                for line in unanswered:
                    stream.write(line)
                while text := stream.readline():
                    last_reply_s = time.monotonic()
                    self._deliver(json.loads(text))
                why = "the connection ended"
            except (OSError, ValueError) as error:
                why = str(error) or type(error).__name__
            finally:
                with self._mutex:
                    self._stream = None
                stream.close()
            if not self._closed.wait(_RETRY_S):
                log.warning("%s: %s; connecting again", self._label, why)
        self._fail_all(f"the connection to {self._label} was closed")

    def _keep_alive(self) -> None:
        while not self._closed.wait(self._dead_man_s / 5):
            try:
                self.ping()
            except (TargetError, OSError):
                continue

    def ping(self) -> None:
        """Reset the agent's dead-man's timer, and measure its monotonic clock."""
        before_ns = time.monotonic_ns()
        there_ns = self.call(Session.ping)
        took_ns = time.monotonic_ns() - before_ns
        if self._clock_offset_ns is None or took_ns < self._clock_offset_ns[0]:
            self._clock_offset_ns = took_ns, there_ns - (before_ns + took_ns // 2)

    def _deliver(self, reply: calls.Line) -> None:
        with self._mutex:
            _, future = self._waiting.get(str(reply.get("id")), (b"", None))
        if future is not None:
            with contextlib.suppress(InvalidStateError):
                future.set_result(reply)

    def _fail_all(self, why: str) -> None:
        with self._mutex:
            self._failure = why
            waiting = [future for _, future in self._waiting.values()]
        for future in waiting:
            with contextlib.suppress(InvalidStateError):
                future.set_exception(TargetError(why))
