"""The Containerfile: its lines, and the image that it makes."""

import fnmatch
import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.support.require import require
from tests.support.targets import docker_daemon, highwater_image
from tests.support.targets.highwater_image import CONTAINERFILE, IMAGE, ROOT

RUN_TIMEOUT_S = 240
PACKAGES = ("highwater", "nodes", "nemesis", "checkers", "harness")
ROOTLESS = (
    *("--user", "1000", "--security-opt", "seccomp=unconfined"),
    *("--security-opt", "systempaths=unconfined"),
)
"""What a container needs for network namespaces without root: docs/container.md."""


def instructions() -> list[list[str]]:
    """The instructions of the file, each as its words."""
    text = CONTAINERFILE.read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [line.split() for line in lines]


def test_stages_are_from_the_base_that_the_builder_names() -> None:
    """The wheel is built in one stage and installed in the other, which starts highwater."""
    found = instructions()
    assert found[0][0] == "ARG"
    assert found[0][1].startswith("BASE=")
    stages = [words[1:] for words in found if words[0] == "FROM"]
    assert stages == [["${BASE}", "AS", "wheel"], ["${BASE}"]]
    assert ["COPY", "--from=wheel", "/wheel", "/wheel"] in found
    assert ["ENTRYPOINT", '["highwater"]'] in found


def test_every_copied_path_is_there_and_in_the_context() -> None:
    """.dockerignore lets through exactly what is copied."""
    copied = highwater_image.copied()
    assert all((ROOT / path).exists() for path in copied)
    let_through = (ROOT / ".dockerignore").read_text().splitlines()
    assert sorted(copied) == sorted(line[1:] for line in let_through if line.startswith("!"))
    assert set(PACKAGES) < set(copied)


def test_wheel_of_sources_without_git_has_all_files() -> None:
    """In the image git does not say which files belong to the packages; pyproject.toml does."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    listed = subprocess.run(
        ["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    for path in map(Path, listed):
        patterns = data["package-data"][path.parts[0]]
        inner = "/".join(path.parts[1:])
        assert path.suffix == ".py" or any(
            fnmatch.fnmatch(f"/{inner}", f"/{pattern.replace('**/', '*')}") for pattern in patterns
        ), path


@pytest.mark.slow
@pytest.mark.nightly("system/test_container.py::test_every_copied_path_is_there_and_in_the_context")
def test_image_runs_a_plan_without_root(tmp_path: Path) -> None:
    """It is built without a registry and without a network. The run is stored in the volume."""
    require("docker", "userns")
    tmp_path.chmod(0o755)
    store = tmp_path / "work"
    store.mkdir()
    store.chmod(0o777)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["docker", "--host", address, "run", "--rm", "--network", "none", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
        )

    with docker_daemon.daemon() as address:
        highwater_image.build(address, tmp_path)
        assert run(IMAGE, "--version").stdout == "highwater 7.8.9\n"
        assert "Break a cluster under your own program" in run(IMAGE, "--help").stdout
        plan = ("run", "quick", "--duration", "8", "--faults", "pause", "--seed", "4", "--json")
        done = run(*ROOTLESS, "--volume", f"{store}:/work", IMAGE, *plan)
        assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["verdict"] == "VALID"
    assert Path(verdict["run"]).is_relative_to("/work/store")
    assert (store / Path(verdict["run"]).relative_to("/work") / "report.html").is_file()
