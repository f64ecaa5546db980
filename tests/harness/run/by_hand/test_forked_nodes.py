"""Nodes that are forked: each is a process of its own, as one that `python -m nodes` starts."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.targets.linux import processes
from tests.support.require import require

SCRIPT = """
import json, os, socket, sys
from pathlib import Path
from harness.run.by_hand.forked_nodes import ForkedMachines, Forker

class Journal:
    def record(self, kind, /, **fields): pass

folder = Path(sys.argv[1])
kept, _ = socket.socketpair()
forker = Forker()
machines = ForkedMachines(Journal(), forker)
here = Path("/proc/self/ns/net")

def started(env, *command):
    found = machines.spawn(1, here, [sys.executable, *command], env, folder / "log")
    forked = not hasattr(found, "poll")
    return found, {"forked": forked, "pid": found.pid, "group": os.getpgid(found.pid)}

own = dict(os.environ)
node, facts = started(own, "-P", "-m", "nodes", str(folder / "missing.properties"))
facts["code"] = node.wait(30)
other, others = started({**own, "LD_PRELOAD": ""}, "-m", "nodes", "missing")
other.wait(30)
module, modules = started(own, "-m", "json.tool", "missing")
module.wait(30)
[forking] = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
inode = f"socket:[{os.fstat(kept.fileno()).st_ino}]"
holders = [fd for fd in Path("/proc", forking, "fd").iterdir() if os.readlink(fd) == inode]
print(json.dumps({"node": facts, "other": others, "module": modules, "holders": len(holders)}))
"""


@pytest.fixture
def facts(tmp_path: Path) -> dict[str, Any]:
    """What a process that forks nodes saw."""
    require("root")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True, text=True, timeout=120, check=True, env=dict(os.environ),
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_forked_node_leads_a_group_writes_its_log_and_has_an_exit_code(
    facts: dict[str, Any], tmp_path: Path
) -> None:
    """Its properties are missing here, so it says so and ends."""
    node = facts["node"]
    assert node["forked"]
    assert node["group"] == node["pid"]
    assert node["code"] == 1
    assert "node cannot run: [Errno 2]" in (tmp_path / "log").read_text()
    assert processes.is_gone(node["pid"])


def test_other_commands_and_environments_are_started_as_usual(facts: dict[str, Any]) -> None:
    """A library that is loaded first, or another module, cannot be had by a fork."""
    assert not facts["other"]["forked"]
    assert not facts["module"]["forked"]


def test_process_that_forks_nodes_holds_no_sockets_of_others(facts: dict[str, Any]) -> None:
    """Whoever waits for the end of a connection must not wait for the nodes."""
    assert facts["holders"] == 0
