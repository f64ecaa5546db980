"""Connections to machines: jump hosts, copied software, and one sentence for each refusal."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.targets.ssh import install
from harness.targets.ssh.connection import Connection, SshError
from harness.targets.ssh.install import Software
from harness.targets.ssh.inventory import load
from harness.targets.ssh.machine import RemoteMachine
from tests.support.require import require
from tests.support.targets.ssh_hosts import PLAIN, Hosts, hosts


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Three hosts."""
    require("root", "netns", "sshd")
    with hosts(tmp_path_factory.mktemp("h")) as made:
        yield made


def test_a_jump_host_is_used(lab: Hosts) -> None:
    """The machine sees the jump host's address."""
    known = load(lab.write("jump.toml", jump=f"root@{lab.target.address(1)}"))
    with Connection(known.hosts[1], known) as connection:
        seen = connection.run(["sh", "-c", "echo $SSH_CONNECTION"]).decode().split()
    assert (seen[0], seen[2]) == (lab.target.address(1), lab.target.address(2))


NODES = Software(module="nodes")


def refused(inventory: Path, software: Software = NODES) -> str:
    """Why the first machine is."""
    known = load(inventory)
    machine = RemoteMachine(known.hosts[0], known, "run")
    with pytest.raises(SshError) as error, machine.connection:
        machine.connect(software)
    message = str(error.value)
    assert "\n" not in message
    assert message.startswith(f"node 1's host {machine.host.host}: ")
    return message


@pytest.mark.slow
def test_files_that_nodes_read_are_copied_once(lab: Hosts, tmp_path: Path) -> None:
    """A directory and a file; a changed file is copied again."""
    jars, file = tmp_path / "jars", tmp_path / "log.properties"
    (jars / "deep").mkdir(parents=True)
    (jars / "deep/a.jar").write_bytes(bytes(range(256)))
    known = load(lab.inventory_path)

    def brought(text: str) -> tuple[Path, Path]:
        file.write_text(text)
        install._content_digest.cache_clear()  # it is taken for what it was, as long as a run goes
        machine = RemoteMachine(known.hosts[0], known, "run")
        with machine.connection:
            machine.connect(Software(module="nodes", files=[jars, file]))
            found = machine.place(jars), machine.place(file)
            assert machine.connection.run(["cat", str(found[0] / "deep/a.jar")]) == bytes(
                range(256)
            )
            assert machine.connection.run(["cat", str(found[1])]).decode() == text
        return found

    first, again, changed = brought("one"), brought("one"), brought("two")
    assert first == again
    assert (changed[0], changed[1].name) == (first[0], "log.properties")
    assert changed[1] != first[1]


def test_a_machine_with_an_old_java_is_refused(lab: Hosts) -> None:
    """The message names the needed and the found version, and the package."""
    require("java")
    message = refused(lab.inventory_path, Software(module="nodes", java=99))
    assert "Kafka needs Java 99 or later there, and the machine has Java 17 on its PATH" in message
    assert message.endswith("apt-get install openjdk-99-jre-headless on that machine")


def test_a_wrong_key_is_refused(lab: Hosts) -> None:
    """The message names the key."""
    message = refused(lab.write("wrong.toml", key=str(lab.place / "host_key_1")))
    assert f"accepts none of the keys ({lab.place}/host_key_1)" in message


def test_an_unknown_host_key_is_refused(lab: Hosts) -> None:
    """The message contains the command that adds it."""
    (lab.place / "nobody").write_text("")
    message = refused(lab.write("unknown.toml", known_hosts=str(lab.place / "nobody")))
    assert f"ssh-keyscan {lab.target.address(1)} >> {lab.place}/nobody" in message
    assert (lab.place / "nobody").read_text() == ""


def test_a_changed_host_key_is_refused(lab: Hosts) -> None:
    """The message contains the command that removes the old one."""
    address = lab.target.address(1)
    public = (lab.place / "host_key_2.pub").read_text()
    (lab.place / "changed").write_text(f"{address} {public}")
    message = refused(lab.write("changed.toml", known_hosts=str(lab.place / "changed")))
    assert f"ssh-keygen -f {lab.place}/changed -R '{address}'" in message


def test_an_unreachable_host_is_refused(lab: Hosts) -> None:
    """No server listens on the port."""
    assert "port 2222 cannot be reached" in refused(lab.write("away.toml", port=2222))


def test_a_user_without_root_is_refused(lab: Hosts) -> None:
    """Without permission to use sudo, and with `sudo = false`."""
    assert f"{PLAIN} may not use sudo" in refused(lab.write("plain.toml", user=PLAIN))
    message = refused(lab.write("no-sudo.toml", user=PLAIN, sudo=False))
    assert f"{PLAIN} is not root" in message


def test_a_missing_or_old_python_is_refused(lab: Hosts) -> None:
    """The message names the interpreter."""
    message = refused(lab.write("none.toml", python="/no/python"))
    assert "/no/python does not run there" in message
    old = lab.place / "old-python"
    old.write_text("#!/bin/sh\necho '[[3, 9, 2], \"cpython-39-x86_64-linux-gnu\"]'\n")
    old.chmod(0o755)
    assert "is Python 3.9.2, too old" in refused(lab.write("old.toml", python=str(old)))


def test_a_refusal_leaves_nothing_on_the_machine(lab: Hosts) -> None:
    """No file was copied."""
    before = set(lab.directory(1).rglob("*"))  # by other tests
    refused(lab.write("none.toml", python="/no/python"))
    assert set(lab.directory(1).rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 254, "needs an inventory of machines"),
        (("--inventory", "nowhere.toml"), 254, "cannot be read"),
        (("--inventory", "{lab}", "--nodes", "4"), 254, "no host for node 4"),
        (("--inventory", "{away}"), 255, "port 2222 cannot be reached"),
    ],
)
def test_the_exit_code_distinguishes_bad_input_from_bad_machines(
    lab: Hosts,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    """254 for the plan or the inventory, 255 for the machines."""
    places = {"lab": lab.inventory_path, "away": lab.write("away.toml", port=2222)}
    with pytest.raises(SystemExit) as ended:
        main(["run", "--target", "ssh", *(each.format(**places) for each in arguments)])
    assert ended.value.code == code
    [line] = capsys.readouterr().err.splitlines()
    assert message in line
