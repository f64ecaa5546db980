"""A user who is not root gets the same machines, which end with the run."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from harness.recording.journal import ROOTLESS_UID
from harness.targets.linux import kernel
from harness.targets.local import rootless
from nemesis.faults.catalogue import FAULTS
from nemesis.faults.fault import Ability
from tests.support.require import require
from tests.support.targets.machine import marked, new_run_id
from tests.support.targets.unprivileged import (
    ENVIRONMENT,
    own_home,
    unprivileged,
    usable_python,
)
from tests.support.tiers import in_turn

CLUSTER = """
from harness.targets.local.rootless import ensure_privileges
ensure_privileges()
import os, pathlib, socket, sys, time
from harness.recording import journal as journals
from harness.targets.linux.network import namespaces
from harness.targets.linux.disks.volumes import Volume
from harness.targets.local import LocalTarget
from nemesis.hosts import Cut
run_id, linger = sys.argv[1:]
run_dir = pathlib.Path(os.environ["XDG_RUNTIME_DIR"])
journal = journals.Journal.create(run_dir / "journal.jsonl", run_id=run_id)
target = LocalTarget(run_id, run_dir, [1, 2], journal, uplink=True)
assert target.volume is Volume.DIRECTORY
target.up()
with namespaces.entered(target.network.namespace(1)):
    server = socket.create_server((target.address(1), 9092))
for come_from in (2, 0):
    with namespaces.entered(target.network.namespace(come_from)):
        socket.create_connection((target.address(1), 9092), timeout=30).close()
target.links.block(Cut(2, 1))
with namespaces.entered(target.network.namespace(2)), socket.socket() as client:
    client.settimeout(0.2)
    assert client.connect_ex((target.address(1), 9092)) != 0
assert (target.links.dropped(Cut(2, 1)) or 0) > 0
command = ["sh", "-c", "sleep 1000; exit # " + run_id]
target.set_command(1, command, {"PATH": os.environ["PATH"]}, run_dir / "log")
target.start(1)
target.pause(1)
print("works", flush=True)
if linger == "linger":
    time.sleep(1000)
target.down()
journal.finish()
assert journals.registered() == []
"""

CLEAN = """
from harness.targets.clean import clean
for cleaned in clean():
    print(cleaned.outcome, *cleaned.problems)
"""


@pytest.fixture
def python() -> str:
    """That interpreter."""
    return usable_python()


@pytest.fixture
def home() -> Iterator[Path]:
    """Such a directory."""
    with own_home() as path:
        yield path


def run(argv: Sequence[str], home: Path) -> subprocess.CompletedProcess[str]:
    """Run and wait, with both outputs."""
    env = {**ENVIRONMENT, "XDG_RUNTIME_DIR": str(home)}
    return subprocess.run(argv, capture_output=True, text=True, env=env, check=False, timeout=120)


def test_a_user_without_privileges_gets_a_working_network(python: str, home: Path) -> None:
    """Namespaces, links, cuts and signals work, and everything is removed."""
    run_id = new_run_id()
    done = run(unprivileged(CLUSTER, run_id, "end", python=python), home)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("works")
    assert marked(run_id) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_every_process_inside_ends_with_the_harness(
    python: str, home: Path, number: signal.Signals
) -> None:
    """However the visible process ends; `clean` removes the rest."""
    run_id = new_run_id()
    with subprocess.Popen(
        unprivileged(CLUSTER, run_id, "linger", python=python),
        stdout=subprocess.PIPE,
        env={**ENVIRONMENT, "XDG_RUNTIME_DIR": str(home)},
    ) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline().startswith(b"works")
        assert len(marked(run_id)) >= 4
        harness.send_signal(number)
        harness.wait(60)
    assert kernel.wait_until(lambda: marked(run_id) == [], 60)
    assert len(list((home / "highwater/netns").iterdir())) == 4
    cleaned = run(unprivileged(CLEAN, python=python), home)
    assert (cleaned.stdout, cleaned.stderr) == ("undone\n", "")
    assert [path.name for path in (home / "highwater").rglob("*")] == ["netns"]


def test_the_exit_status_is_passed_on(python: str, home: Path) -> None:
    """Signals as a shell reports them; orphans do not delay the end."""
    script = (
        "from harness.targets.local import rootless; import sys;"
        "rootless.ensure_privileges(['sh', '-c', sys.argv[1]])"
    )
    for command, status in (("sleep 1000 & exit 7", 7), ("kill -9 $$", 137)):
        assert run(unprivileged(script, command, python=python), home).returncode == status


def test_without_user_namespaces_the_message_says_how_to_allow_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One text with the reason and the fix."""

    def refuse(flags: int) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(kernel, "unshare", refuse)
    assert rootless.main(["true"]) == 255
    text = capsys.readouterr().err
    assert "Operation not permitted" in text
    assert "sysctl" in text


def test_a_user_who_may_make_namespaces_keeps_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root, and a process that is inside already."""
    require("root", "netns")
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("nothing had to be replaced"))
    rootless.ensure_privileges()
    assert rootless.enter_hint() is None
    monkeypatch.setenv(ROOTLESS_UID, "1000")
    assert "nsenter" in str(rootless.enter_hint())


@pytest.fixture(scope="module")
def attempts(request: pytest.FixtureRequest) -> Iterator[dict[str, list[str]]]:
    """What went wrong with each fault that is asked for, tried by a user who is not root."""
    wanted = [
        item.callspec.params["name"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.path == request.path
        and "attempts" in item.fixturenames
    ]
    with own_home() as place:
        program = f"from tests.support.targets import rootless_faults as f; f.main({wanted})"
        done = run(unprivileged(program, python=usable_python()), place)
        assert done.returncode == 0, done.stderr
        yield json.loads(done.stdout)
        assert [path.name for path in (place / "highwater").rglob("*")] == ["netns"]


@pytest.mark.parametrize(
    "name",
    in_turn(
        "harness/targets/local/test_rootless.py"
        "::test_without_root_exactly_the_faults_of_the_doctors_table_work",
        [n for n, fault in FAULTS.items() if Ability.PROGRAM_SIGNALS not in fault.needs],
        of=3,
    ),
)
def test_without_root_exactly_the_faults_of_the_doctors_table_work(
    name: str, attempts: dict[str, list[str]]
) -> None:
    """They are made, proven and healed; for the others the target lacks an ability."""
    assert attempts[name] == []
