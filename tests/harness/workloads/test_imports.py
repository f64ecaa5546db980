"""Client processes load only what they need: a run starts some of them for each topic."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("harness.workloads.own", {"pydantic", "pyroute2", "harness.plans.workloads"}),
        ("harness.workloads.librdkafka", {"pydantic", "pyroute2", "harness.plans.workloads"}),
        ("harness.workloads.app.__main__", {"docker", "pyroute2"}),
    ],
)
def test_a_client_process_loads_nothing_that_its_clients_do_without(
    module: str, heavy: set[str]
) -> None:
    """The plan's models are for further workloads, and the network's tools for containers."""
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert not heavy & set(done.stdout.decode().split())
