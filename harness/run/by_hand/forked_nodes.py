"""Nodes of the built-in broker that are forked from one process, which has imported the broker.

The imports take most of the time of a node's start. So a cluster for tests imports the broker once,
beside its own imports, and forks every node. A forked node is as one that `python -m nodes` starts:
a session, a network namespace, standard streams and an environment of its own, and the same code.
"""

import gc
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from harness.targets.linux import kernel, processes
from harness.targets.linux.machines import Namespaces
from harness.targets.linux.processes import UNKNOWN_PROCESS, AdoptedProcess, Process
from harness.targets.linux.recorder import Recorder

LARGEST: Final = 1 << 20
"""No message is larger, bytes."""
NODE: Final = ("-m", "nodes")


class Forker:
    """The process that forks nodes. It ends when this process does, or closes its end."""

    def __init__(self) -> None:
        """Fork it. This process must have one thread yet."""
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._mutex = threading.Lock()
        if os.fork() == 0:
            _fork_nodes(theirs)
        theirs.close()

    def fork(
        self, namespace: Path, properties: str, env: Mapping[str, str], log: Path
    ) -> AdoptedProcess:
        """Start a node in a network namespace. Raises OSError if the process has ended."""
        order = {"namespace": str(namespace), "properties": properties, "log": str(log)}
        pid = self._ask({**order, "env": dict(env)})
        identity = processes.identify(pid) or UNKNOWN_PROCESS
        return AdoptedProcess(identity, partial(self._exit_code, pid))

    def _exit_code(self, pid: int) -> int | None:
        """Return the exit code of a node that has ended; None if nobody knows it."""
        try:
            code: int = self._ask({"ended": pid})
        except OSError:
            return None
        return code

    def _ask(self, request: Mapping[str, Any]) -> Any:
        with self._mutex:
            self._requests.sendall(json.dumps(request).encode())
            answer = self._requests.recv(LARGEST)
        if not answer:
            raise ConnectionError("the process that forks the nodes has ended")
        return json.loads(answer)


class ForkedMachines(Namespaces):
    """Network namespaces whose nodes are forked, if they run the unmodified built-in broker."""

    def __init__(self, journal: Recorder, forker: Forker) -> None:
        super().__init__(journal)
        self._forker = forker

    def spawn(
        self, node: int, namespace: Path, argv: Sequence[str], env: Mapping[str, str], log: Path
    ) -> Process:
        """Fork a node; start any other command, or one with another environment, as usual."""
        if tuple(argv[-3:-1]) == NODE and argv[0] == sys.executable and dict(env) == os.environ:
            return self._forker.fork(namespace, argv[-1], env, log)
        return super().spawn(node, namespace, argv, env, log)


def _fork_nodes(requests: socket.socket) -> NoReturn:
    """Import the broker and answer requests until the end of the other process."""
    kernel.die_with_parent(signal.SIGKILL)
    # The sockets of the tests are not ours: whoever waits for their end must not wait for us.
    os.closerange(3, requests.fileno())
    os.closerange(requests.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
    import nodes.__main__
    import nodes.kio_alone  # noqa: F401

    gc.freeze()
    while message := requests.recv(LARGEST):
        request = json.loads(message)
        if "ended" in request:
            _, status = os.waitpid(request["ended"], 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = _forked(request)
        requests.sendall(json.dumps(answer).encode())
    os._exit(0)


def _forked(order: Mapping[str, Any]) -> int:
    """Fork a node; return its pid when it leads a session and a process group of its own."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _be_node(order)  # which closes the pipe
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    return pid


def _be_node(order: Mapping[str, Any]) -> NoReturn:
    """Turn this new process into a node, and run it to its end."""
    code = 1
    try:
        os.setsid()
        descriptor = os.open(order["namespace"], os.O_RDONLY)
        kernel.setns(descriptor, kernel.CLONE_NEWNET)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        for stream in (1, 2):
            os.dup2(log, stream)
        os.close(log)
        os.environ.clear()
        os.environ.update(order["env"])
        from nodes.__main__ import main

        code = main([order["properties"]])
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
