"""The image of the Containerfile, built without a registry and without a network.

Its base is the Debian of `docker_daemon` with pip, with the build tools and with highwater's
dependencies, which are copied from the environment of the tests.
"""

import io
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

import docker

from tests.support.targets import docker_daemon

ROOT = Path(__file__).parents[3]
CONTAINERFILE = ROOT / "Containerfile"
BASE = "highwater-image-base"
IMAGE = "highwater"
PACKAGES = f"/usr/local/lib/python3.{sys.version_info.minor}/dist-packages"
"""Where Debian's Python looks for packages."""
TOOLS = ("pip", "setuptools", "setuptools_scm", "wheel")
"""What builds and installs a wheel."""
BASE_FILE = f"""
FROM {docker_daemon.BASE}
COPY packages {PACKAGES}
ENV PIP_NO_INDEX=1 PIP_NO_BUILD_ISOLATION=0 PIP_ROOT_USER_ACTION=ignore
"""
UNUSED = re.compile(r"pyspark/|/tests/|\.pyc$")
"""Large files that no run without Spark needs."""


def build(address: str, folder: Path) -> str:
    """Build the image with a daemon, and return its name."""
    client = docker.DockerClient(base_url=address, timeout=900)
    try:
        for name, context, containerfile, arguments in (
            (BASE, _base_context(folder), "Dockerfile", {}),
            (IMAGE, _sources(), CONTAINERFILE.name, {"BASE": BASE, "VERSION": "7.8.9"}),
        ):
            lines = [
                str(part)
                for part in client.api.build(
                    fileobj=context, custom_context=True, tag=name, rm=True, forcerm=True,
                    dockerfile=containerfile, buildargs=arguments, decode=True,
                )
            ]  # fmt: skip
            assert not any("'error'" in line for line in lines), "\n".join(lines[-20:])
    finally:
        client.close()
    return IMAGE


def copied() -> list[str]:
    """Return the paths that the Containerfile copies from the sources."""
    lines = CONTAINERFILE.read_text().splitlines()
    found = [line.split()[1:-1] for line in lines if line.startswith("COPY ")]
    return [path for paths in found for path in paths if not path.startswith(("--", "/"))]


def _sources() -> io.BytesIO:
    """The build context: what the Containerfile copies."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in (CONTAINERFILE.name, *copied()):
            tar.add(ROOT / name, name, filter=lambda i: None if "__pycache__" in i.name else i)
    packed.seek(0)
    return packed


def _base_context(folder: Path) -> io.BytesIO:
    """The build context of the base."""
    tools = folder / "tools"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(tools)]
    subprocess.run([*command, "--upgrade", *TOOLS], check=True, timeout=300)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        info = tarfile.TarInfo("Dockerfile")
        info.size = len(BASE_FILE)
        tar.addfile(info, io.BytesIO(BASE_FILE.encode()))
        tar.add(tools, "packages")
        for path, name in _dependencies():
            if not UNUSED.search(name) and path.is_file():
                tar.add(path, f"packages/{name}")
    packed.seek(0)
    return packed


def _dependencies() -> Iterator[tuple[Path, str]]:
    """Yield the files of highwater's dependencies, and their dependencies."""
    known: set[str] = set()
    waiting: list[str] = _needed(metadata.requires("highwater") or ())
    while waiting:
        name = waiting.pop()
        if name in known or name in TOOLS:
            continue
        known.add(name)
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # for other versions of Python than this one
        for file in found.files or ():
            if ".." not in file.parts:
                yield Path(str(found.locate_file(file))), str(file)
        waiting += _needed(found.requires or ())


def _needed(requirements: Sequence[str]) -> list[str]:
    return [
        match[0]
        for text in requirements
        if "extra" not in text.partition(";")[2] and (match := re.match(r"[\w.-]+", text))
    ]
