"""The process of a client program: its start, its messages, its end.

Each client asks for itself, in its own thread. The messages of a client wait in a queue until its
thread takes them. A program that ends by itself, writes garbage or does not answer is killed, and
every further call of every client raises ProgramFailed. Time limits count only time in which this
process runs: faults pause it together with the program.
"""

import contextlib
import os
import queue
import select
import subprocess
import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final

from harness.workloads.clients.program.protocol import (
    VERSION,
    Answer,
    Event,
    Introduction,
    ProtocolError,
    Values,
    decode,
    encode,
    introduction_of,
)

START_S: Final = 60.0
"""How long a program may take until it has answered `hello`."""
SILENCE_S: Final = 30.0
"""How much longer than a call's own time limit a program may take for an answer."""
END_S: Final = 5.0
"""How long a program may take to end after its standard input is closed."""
SLICE_S: Final = 1.0

Handler = Callable[[Event], None]


class ProgramFailed(Exception):
    """The program does not run, or does not speak the protocol. The message says why."""


class Program:
    """A running program. Any thread may use it; the messages of a client are for one thread."""

    def __init__(self, command: Sequence[str]) -> None:
        """Start the program; its standard error is that of this process. Raises ProgramFailed."""
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )
        except OSError as error:
            raise ProgramFailed(
                f"the client program {command[0]} cannot be started: {error.strerror}"
            ) from error
        assert self._process.stdin is not None
        self.protocol = 1
        """The version of the protocol that the program speaks."""
        self._input = self._process.stdin.fileno()
        os.set_blocking(self._input, False)
        self._writing = threading.Lock()
        self._failure: str | None = None
        self._ids = count(1)
        self._askers: dict[int, int | None] = {}
        self._queues: dict[int | None, queue.SimpleQueue[Answer | Event | None]] = {}
        self._reader = threading.Thread(target=self._read, name="program", daemon=True)
        self._reader.start()

    def introduce(self) -> Introduction:
        """Return what the program says of itself, and speak its version of the protocol from then
        on. Raises ProgramFailed."""
        answer = self.ask(None, "hello", {"protocol": VERSION}, within_s=START_S - SILENCE_S)
        try:
            found = introduction_of(answer)
        except ProtocolError as error:
            raise self._failed(str(error)) from error
        self.protocol = found.protocol
        return found

    def tell(self, client: int, do: str, values: Values) -> None:
        """Write a command that has no answer: `send` or `resume`. Raises ProgramFailed."""
        self._queue(client)
        self._write(encode(next(self._ids), client, do, values))

    def ask(
        self,
        client: int | None,
        do: str,
        values: Values,
        *,
        within_s: float,
        handle: Handler | None = None,
    ) -> Answer:
        """Write a command and return its answer. Meanwhile `handle` gets the client's events, and
        may ask, too. Raises ProgramFailed."""
        number = next(self._ids)
        self._askers[number] = client
        self._queue(client)
        self._write(encode(number, client, do, values))
        waited_s, limit_s = 0.0, within_s + SILENCE_S
        while True:
            message = self._next(client, SLICE_S)
            if message is None:
                waited_s += SLICE_S
                if waited_s >= limit_s:
                    raise self._failed(
                        f"the client program did not answer `{do}` of client {client} within "
                        f"{limit_s:g} s, and was killed"
                    )
            elif not isinstance(message, Answer):
                waited_s = 0.0  # a handler may take its time
                if handle is not None:
                    handle(message)
            elif message.id == number:
                return message
            else:
                raise self._failed(
                    f"the client program answered command {message.id} of client {client} before "
                    f"command {number}, which it has to answer first"
                )

    def events(self, client: int, timeout_s: float) -> list[Event]:
        """Return the events of a client; wait up to `timeout_s` for the first. Raises
        ProgramFailed."""
        found: list[Event] = []
        message = self._next(client, timeout_s)
        while message is not None:
            if isinstance(message, Answer):
                raise self._failed(f"the client program answered command {message.id} twice")
            found.append(message)
            message = self._next(client, 0.0)
        return found

    def stop(self) -> None:
        """Close the program's standard input, and kill the program if it does not end."""
        self._failure = self._failure or "the client program was stopped"
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def fail(self, why: str) -> ProgramFailed:
        """Kill the program, and return the error that all clients get from now on."""
        return self._failed(why)

    # -- messages

    def _queue(self, client: int | None) -> "queue.SimpleQueue[Answer | Event | None]":
        return self._queues.setdefault(client, queue.SimpleQueue())

    def _next(self, client: int | None, timeout_s: float) -> Answer | Event | None:
        """Return the client's next message; None if there is none in time. Raises ProgramFailed."""
        try:
            if timeout_s > 0:
                message = self._queue(client).get(timeout=timeout_s)
            else:
                message = self._queue(client).get_nowait()
        except queue.Empty:
            message = None
        if message is None and self._failure is not None:
            raise ProgramFailed(self._failure)
        return message

    def _write(self, line: bytes) -> None:
        left, waited_s = memoryview(line), 0.0
        with self._writing:
            while left:
                if self._failure is not None:
                    raise ProgramFailed(self._failure)
                _, ready, _ = select.select([], [self._input], [], SLICE_S)
                if not ready:
                    waited_s += SLICE_S
                    if waited_s >= SILENCE_S:
                        raise self._failed(
                            f"the client program read nothing for {SILENCE_S:g} s, and was killed; "
                            "it must read commands while its clients work"
                        )
                    continue
                try:
                    left = left[os.write(self._input, left) :]
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise self._ended() from error

    def _read(self) -> None:
        assert self._process.stdout is not None
        # Not unbuffered: reading lines byte by byte would be slow.
        with os.fdopen(os.dup(self._process.stdout.fileno()), "rb") as lines:
            for line in lines:
                try:
                    self._deliver(decode(line))
                except ProtocolError as error:
                    if line.endswith(b"\n"):
                        self._failed(str(error))
                    break  # else it died while it wrote the line
        self._ended()

    def _deliver(self, message: Answer | Event) -> None:
        if not isinstance(message, Answer):
            self._queue(message.client).put(message)
        elif message.id in self._askers:
            self._queue(self._askers.pop(message.id)).put(message)
        else:
            raise ProtocolError(
                f"the client program answered command {message.id}, which waits for no answer"
            )

    # -- the end

    def _ended(self) -> ProgramFailed:
        """Note that the program has ended by itself, unless it is known why."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)
        return self._failed(f"the client program ended with code {self._process.poll()}")

    def _failed(self, why: str) -> ProgramFailed:
        """Kill the program, and let all clients know why. The first reason stays."""
        if self._failure is None:
            self._failure = why
        self._process.kill()
        for each in list(self._queues.values()):
            each.put(None)  # wakes its thread
        return ProgramFailed(self._failure)


def introduce(command: Sequence[str]) -> Introduction:
    """Start a program, ask what it is, and stop it. Raises ProgramFailed."""
    program = Program(command)
    try:
        return program.introduce()
    finally:
        program.stop()
