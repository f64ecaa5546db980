"""The Vagrantfile's use of environment variables, evaluated by Ruby alone, without Vagrant."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.require import require

TOP = Path(__file__).parents[4]

# What the file tells Vagrant, written down: every call and assignment as a dotted name.
RECORDER = """
require "json"
class Recorder
  def initialize(calls, name) = (@calls, @name = calls, name)
  def method_missing(method, *given, **named, &block)
    name = "#{@name}.#{method}"
    @calls << [name, *given, *(named.empty? ? [] : [named])] unless given.empty? && named.empty?
    inner = Recorder.new(@calls, [name, *given.grep(String)].join("/"))
    block&.call(inner, Recorder.new(@calls, "override"))
    inner
  end
  def respond_to_missing?(*) = true
end
module Vagrant
  CALLS = []
  def self.require_version(*) = nil
  def self.configure(*) = yield(Recorder.new(CALLS, "config"))
end
load ARGV[0]
puts JSON.generate(Vagrant::CALLS)
"""


def read(file: Path = TOP / "Vagrantfile", **env: str) -> subprocess.CompletedProcess[str]:
    """Let Ruby read the file."""
    require("ruby")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HIGHWATER_")}
    return subprocess.run(
        ("ruby", "-w", "-e", RECORDER, str(file)),
        env={**clean, "NODES": "2", **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def calls_of(**env: str) -> list[list[Any]]:
    """Every call with arguments, in order."""
    done = read(**env)
    assert (done.returncode, done.stderr) == (0, "")
    return list(json.loads(done.stdout))


def test_every_machine_has_its_own_name_and_address() -> None:
    """n1, n2, ..., in a network of their own."""
    calls = calls_of(NODES="3")
    assert [c[1] for c in calls if c[0] == "config.vm.define"] == ["n1", "n2", "n3"]
    networks = [c for c in calls if c[0].endswith("vm.network")]
    assert [c[2]["ip"] for c in networks] == ["198.18.250.11", "198.18.250.12", "198.18.250.13"]


def test_the_environment_sets_the_machines_properties() -> None:
    """Each variable reaches every provider that it is for."""
    calls = calls_of(
        HIGHWATER_BOX="mine",
        HIGHWATER_IMAGE="own",
        HIGHWATER_MEMORY_MB="2048",
        HIGHWATER_CPUS="4",
        HIGHWATER_DRIVER="qemu",
        HIGHWATER_SUBNET="198.19.7",
    )
    for expected in (
        ["override.vm.box=", "mine"],
        ["config.vm.provider/libvirt.driver=", "qemu"],
        ["config.vm.provider/libvirt.cpu_mode=", "custom"],
        ["config.vm.provider/libvirt.memory=", 2048],
        ["config.vm.provider/virtualbox.memory=", 2048],
        ["config.vm.provider/libvirt.cpus=", 4],
        ["config.vm.provider/virtualbox.cpus=", 4],
        ["config.vm.provider/docker.image=", "own"],
    ):
        assert expected in calls
    assert any(c[0].endswith("vm.network") and c[2]["ip"] == "198.19.7.12" for c in calls)


def test_existing_machines_count_without_the_variable_nodes(tmp_path: Path) -> None:
    """`NODES=5 vagrant up` and then `vagrant destroy` means all five."""
    file = tmp_path / "Vagrantfile"
    file.write_text((TOP / "Vagrantfile").read_text())
    (tmp_path / ".vagrant/machines/n12/libvirt").mkdir(parents=True)
    (tmp_path / ".vagrant/machines/n12/libvirt/id").write_text("made")
    require("ruby")
    env = {name: value for name, value in os.environ.items() if name != "NODES"}
    done = subprocess.run(
        ("ruby", "-e", RECORDER, str(file)),
        env=env, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    names = [c[1] for c in json.loads(done.stdout) if c[0] == "config.vm.define"]
    assert names == [f"n{node}" for node in range(1, 13)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NODES", "0"),
        ("NODES", "201"),
        ("NODES", "five"),
        ("HIGHWATER_CPUS", "1.5"),
        ("HIGHWATER_DRIVER", "xen"),
        ("HIGHWATER_SUBNET", "192.168.7"),
    ],
)
def test_an_invalid_variable_is_refused(name: str, value: str) -> None:
    """The message names it and says what to give."""
    done = read(**{name: value})
    assert done.returncode == 1
    assert done.stderr.startswith(f"{name}={value}: give ")
    assert len(done.stderr.splitlines()) == 1
