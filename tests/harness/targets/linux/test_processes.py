"""The nodes' processes: started, stopped, paused, killed, and never confused with others."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.targets.base import NodeState, UnknownNode
from harness.targets.linux import kernel, processes
from harness.targets.local import LocalTarget
from tests.support.require import require
from tests.support.targets.machine import local_target

OWN_NAMESPACE = Path("/proc/thread-self/ns/net")
FAMILY = "sleep 1000 & sleep 1000 & echo ready; wait"
DEAF = "trap '' TERM; echo ready; while :; do sleep 0.05; done"


@pytest.fixture
def target(tmp_path: Path) -> Iterator[LocalTarget]:
    """A target with one node."""
    require("root", "netns")
    with local_target(tmp_path) as made:
        yield made


def start(target: LocalTarget, script: str, log_path: Path) -> None:
    """Start a shell script on node 1 and wait until it says that it is ready."""
    env = {"PATH": os.environ["PATH"]}
    before = log_path.read_text().count("ready") if log_path.exists() else 0
    target.set_command(1, ["sh", "-c", script], env, log_path)
    target.start(1)
    assert kernel.wait_until(lambda: log_path.read_text().count("ready") > before, 60)


def test_a_pause_stops_every_process_of_the_node(target: LocalTarget, tmp_path: Path) -> None:
    """The whole group, children too, continues afterwards."""
    start(target, FAMILY, tmp_path / "log")
    group = target.pid(1)
    assert group is not None
    target.pause(1)
    assert set(processes.group_states(group).values()) == {"T"}
    assert len(processes.group_states(group)) == 3
    assert target.is_running(1)
    assert target.state(1) == "T"
    target.resume(1)
    assert "T" not in processes.group_states(group).values()


def test_a_kill_ends_the_whole_group_even_when_paused(target: LocalTarget, tmp_path: Path) -> None:
    """SIGKILL ends children and stopped processes; the exit code names the signal."""
    start(target, FAMILY, tmp_path / "log")
    group = target.pid(1)
    assert group is not None
    target.pause(1)
    target.kill(1)
    assert processes.group_states(group) == {}
    assert not target.is_running(1)
    assert target.state(1) == ""
    assert target.exit_code(1) == -9
    target.kill(1)
    target.resume(1)
    assert target.stop(1)


def test_a_stop_lets_a_node_end_by_itself(target: LocalTarget, tmp_path: Path) -> None:
    """It keeps its own exit code; a paused node is continued first."""
    start(target, "trap 'exit 3' TERM; echo ready; sleep 1000 & wait", tmp_path / "log")
    target.pause(1)
    assert target.stop(1, timeout_s=60)
    assert target.exit_code(1) == 3


def test_a_stop_kills_a_node_that_ignores_sigterm(target: LocalTarget, tmp_path: Path) -> None:
    """After the time limit; the caller learns of it."""
    start(target, DEAF, tmp_path / "log")
    assert not target.stop(1, timeout_s=0.1)
    assert target.exit_code(1) == -9


def test_a_restarted_node_appends_to_its_log(target: LocalTarget, tmp_path: Path) -> None:
    """The output before the kill stays."""
    start(target, "echo ready; exec sleep 1000", tmp_path / "log")
    target.kill(1)
    start(target, "echo ready; exec sleep 1000", tmp_path / "log")
    assert (tmp_path / "log").read_text() == "ready\nready\n"


def test_a_crashed_node_is_detected_and_can_be_started_again(
    target: LocalTarget, tmp_path: Path
) -> None:
    """Its exit code is known."""
    start(target, "echo ready; exit 7", tmp_path / "log")
    assert kernel.wait_until(lambda: not target.is_running(1), 60)
    assert target.exit_code(1) == 7
    start(target, "echo ready; exec sleep 1000", tmp_path / "log")
    assert target.exit_code(1) is None
    with pytest.raises(NodeState, match="running already"):
        target.start(1)


def test_impossible_calls_are_errors(target: LocalTarget) -> None:
    """No command, no process, no such node."""
    with pytest.raises(NodeState, match="no command"):
        target.start(1)
    with pytest.raises(NodeState, match="not running"):
        target.pause(1)
    with pytest.raises(UnknownNode):
        target.is_running(9)
    with pytest.raises(UnknownNode):
        target.kill(9)


def test_a_missing_program_is_an_error_at_start(target: LocalTarget, tmp_path: Path) -> None:
    """The calling thread is back in its own namespace."""
    home = OWN_NAMESPACE.readlink()
    target.set_command(1, ["/no/such/program"], {}, tmp_path / "log")
    with pytest.raises(FileNotFoundError):
        target.start(1)
    assert not target.is_running(1)
    assert OWN_NAMESPACE.readlink() == home


def test_clients_run_in_the_clients_namespace(target: LocalTarget, tmp_path: Path) -> None:
    """A spawned client and a moved thread share it; the thread returns."""
    home = OWN_NAMESPACE.readlink()
    with target.in_client_netns():
        there = OWN_NAMESPACE.readlink()
    assert OWN_NAMESPACE.readlink() == home != there
    script = "import os; print(os.readlink('/proc/self/ns/net'))"
    client = target.spawn_client([sys.executable, "-c", script], log_path=tmp_path / "client")
    assert client.wait(60) == 0
    assert (tmp_path / "client").read_text().strip() == str(there)


def test_down_ends_running_clients(tmp_path: Path) -> None:
    """They are killed and reaped."""
    require("root", "netns")
    with local_target(tmp_path) as target:
        client = target.spawn_client(["sleep", "1000"])
    assert client.returncode == -9


def test_a_pid_alone_does_not_identify_a_process() -> None:
    """Another start time or boot is another process, which is neither seen nor killed."""
    with subprocess.Popen(["sleep", "1000"]) as child:
        mine = processes.identify(child.pid)
        assert mine is not None
        assert processes.is_alive(mine)
        strangers = [
            replace(mine, start_ticks=mine.start_ticks - 1),
            replace(mine, world="another boot/pid:[1]"),
        ]
        assert not any(processes.is_alive(stranger) for stranger in strangers)
        assert processes.end(strangers) == []
        assert processes.is_alive(mine)
        assert processes.end([mine]) == []
        assert not processes.is_alive(mine)
        assert child.wait(60) == -9


def test_a_process_name_with_parentheses_is_parsed(tmp_path: Path) -> None:
    """The name in /proc/<pid>/stat may contain anything, its delimiter too."""
    odd = tmp_path / "a) R 1 1"
    odd.symlink_to("/bin/sleep")
    with subprocess.Popen([odd, "1000"], start_new_session=True) as child:
        assert kernel.wait_until(lambda: processes.stat(child.pid) is not None, 60)
        seen = processes.stat(child.pid)
        assert seen is not None
        assert seen.group == child.pid
        child.kill()


def test_terminate_returns_before_the_node_has_ended(target: LocalTarget, tmp_path: Path) -> None:
    """The node can be started again as soon as it has ended."""
    start(target, FAMILY, tmp_path / "log")
    target.terminate(1)
    assert kernel.wait_until(lambda: not target.is_running(1), 60)
    assert target.exit_code(1) == -signal.SIGTERM
    target.terminate(1)
    start(target, DEAF, tmp_path / "log")
    target.terminate(1)
    assert target.is_running(1)


def test_all_running_clients_are_stopped_and_continued(target: LocalTarget) -> None:
    """Spawned and adopted ones, but not those that have ended."""
    target.spawn_client(["sleep", "1000"])
    ended = target.spawn_client(["true"])
    ended.wait(60)
    with target.in_client_netns():
        target.clients.adopt(subprocess.Popen(["sleep", "1000"], start_new_session=True))
    target.clients.pause()
    assert list(target.clients.states().values()) == ["T", "T"]
    target.clients.resume()
    assert "T" not in target.clients.states().values()
    target.clients.pause()  # the target's end must not wait for who stands still


def test_an_unexpected_exit_is_reported_once(target: LocalTarget, tmp_path: Path) -> None:
    """By a foreign signal or by itself, also if the node was restarted before the report."""
    start(target, FAMILY, tmp_path / "log")
    assert target.take_unexpected_exits() == []
    group = target.pid(1)
    assert group is not None
    os.killpg(group, signal.SIGKILL)
    assert kernel.wait_until(lambda: not target.is_running(1), 60)
    assert target.take_unexpected_exits() == [(1, -9)]
    assert target.take_unexpected_exits() == []
    assert target.exit_code(1) == -9
    start(target, "echo ready; exit 7", tmp_path / "log")
    assert kernel.wait_until(lambda: not target.is_running(1), 60)
    start(target, FAMILY, tmp_path / "log")
    assert target.take_unexpected_exits() == [(1, 7)]


def test_a_requested_end_is_no_unexpected_exit(target: LocalTarget, tmp_path: Path) -> None:
    """A kill, a stop, a late SIGTERM; but a foreign SIGKILL during a stop is one."""
    start(target, FAMILY, tmp_path / "log")
    target.kill(1)
    start(target, FAMILY, tmp_path / "log")
    target.stop(1)
    start(target, FAMILY, tmp_path / "log")
    target.terminate(1)
    assert kernel.wait_until(lambda: not target.is_running(1), 60)
    assert target.take_unexpected_exits() == []
    start(target, "trap 'kill -9 $$' TERM; echo ready; sleep 1000 & wait", tmp_path / "log")
    assert target.stop(1, timeout_s=60)
    assert target.take_unexpected_exits() == [(1, -9)]


@pytest.mark.parametrize("prefix", [(), ("unshare", "--pid", "--fork", "--kill-child")])
def test_a_container_has_all_groups_of_its_pid_namespace(prefix: tuple[str, ...]) -> None:
    """A command has its own group only, whatever its children do."""
    require("root")
    script = "setsid sh -c 'echo $$; exec sleep 60' & wait"
    process = subprocess.Popen(
        [*prefix, "sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    with process.stdout as output:
        child = int(output.readline())
    first = process.pid
    if prefix:
        first = int(Path(f"/proc/{first}/task/{first}/children").read_text().split()[0])
    try:
        found = processes.groups_of(first)
        # The first process of a real container leads a group; this one is in that of unshare.
        assert len(set(found) - {first, process.pid}) == (1 if prefix else 0)
        assert found[0] == first
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if not prefix:
            processes.signal_group(child, signal.SIGKILL)
