"""The pytest plugin of a user who is not root: the cluster lives in a user namespace."""

import subprocess

import pytest

from tests.highwater.test_pytest_plugin import INSTALLED
from tests.support.require import require
from tests.support.targets.unprivileged import ENVIRONMENT, own_home, unprivileged, usable_python

pytestmark = pytest.mark.slow

TESTS = """
import os

def test_this_user_is_not_root():
    assert os.geteuid() != 0

def test_a_program_outside_reaches_the_cluster_and_is_cut_off_from_it(kafka_cluster, faults):
    kafka_cluster.create_topic("orders")
    assert kafka_cluster.produce("orders", [b"1"]) == [b"1"]
    with faults.cut_clients("all"):
        assert kafka_cluster.produce("orders", [b"2"], timeout_s=1) == []
    with faults.partition("leader:orders/0"), faults.kill("node:1"):
        pass
    assert kafka_cluster.read("orders")[0] == b"1"
"""
PYTEST = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"


def test_a_user_without_privileges_breaks_a_cluster_from_outside_of_its_namespace() -> None:
    require("userns")
    python = usable_python()
    with own_home() as home:
        (home / "test_orders.py").write_text(TESTS)
        plugin = () if INSTALLED else ("-p", "highwater.pytest_plugin")
        arguments = (*plugin, "-p", "no:cacheprovider", "-p", "no:randomly")
        done = subprocess.run(
            unprivileged(
                PYTEST, *arguments, f"--rootdir={home}", f"--basetemp={home}/temporary",
                str(home / "test_orders.py"), python=python,
            ),
            cwd=home, capture_output=True, text=True, timeout=300, check=False,
            env={**ENVIRONMENT, "XDG_RUNTIME_DIR": str(home), "HOME": str(home)},
        )  # fmt: skip
        assert "2 passed" in done.stdout, done.stdout + done.stderr
        registry = home / "highwater"
        assert [path.name for path in registry.iterdir() if path.is_symlink()] == []
