"""Install the software that a node and its agent need on a machine: our source and its libraries.

It is copied below DIRECTORY/env and named by a digest of its content, so that it is copied only
once. If the machine's Python equals the harness's (version and architecture), the libraries are
copied too, and the machine needs no package index. Otherwise pip installs the same versions there.
"""

import importlib.metadata
import io
import json
import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from packaging.requirements import Requirement

from harness.brokers.kafka.home import major_release
from harness.plans.plan import PlanError
from harness.targets.ssh.connection import Connection, SshError

LIBRARIES: Final = (
    "kio",
    "crc32c",
    "cramjam",
    "kazoo",
    "uvloop",
    "xxhash",
    "pydantic",
    "pyroute2",
    "rich",
)
"""The libraries that nodes and the agent import; their dependencies are copied too."""
PACKAGES: Final = ("harness", "nemesis", "nodes")
MIN_PYTHON: Final = (3, 11)
SEARCH_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
INSTALL_TIMEOUT_S: Final = 300.0

_VERSION_SCRIPT: Final = (
    "import json,sys,sysconfig;"
    "print(json.dumps([list(sys.version_info[:3]),sysconfig.get_config_var('SOABI')]))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """The software that nodes and agents need on a machine."""

    module: str
    """The module of the broker, run by `python -m`."""
    files: Sequence[Path] = ()
    """Files and directories of this machine that nodes read."""
    java: int | None = None
    """The oldest release of Java that will do; None when no Java is needed."""


class InstalledSoftware(NamedTuple):
    """The software on a machine after `install`."""

    python: str
    path: str
    """For PYTHONPATH."""
    places: Mapping[Path, PurePosixPath]
    """The places on the machine of `Software.files`."""


def install(connection: Connection, software: Software) -> InstalledSoftware:
    """Install the software unless the machine has it. Raises SshError."""
    host = connection.host
    version, abi = _python_version(connection)
    if software.java is not None:
        _check_java(connection, software.java)
    digest, packed = sources(software.module)
    source = host.directory / "env" / f"source-{digest}"
    if not _exists(connection, source):
        with _new_directory(connection, source) as new:
            unpack(connection, new, packed)
    libraries = host.directory / "env" / f"libraries-{_libraries_digest(abi)}"
    same = abi == sysconfig.get_config_var("SOABI")
    if not _exists(connection, libraries):
        with _new_directory(connection, libraries) as new:
            if same:
                unpack(connection, new, _gzipped_tar(_library_files()))
            else:
                _pip(connection, new, version)
    places = {path: _upload(connection, path) for path in software.files}
    if same:
        return InstalledSoftware(host.python, f"{source}:{libraries}", places)
    return InstalledSoftware(str(libraries / "bin/python"), str(source), places)


def _upload(connection: Connection, path: Path) -> PurePosixPath:
    """Copy a file or directory of this machine, unless it is there; return its place there."""
    place = connection.host.directory / "env" / f"{path.name}-{_content_digest(path)}"
    if not _exists(connection, place):
        with _new_directory(connection, place) as new:
            unpack(connection, new, _gzipped_tar(_files_below(path)))
    return place if path.is_dir() else place / path.name


@cache
def _content_digest(path: Path) -> str:
    return _digest(_files_below(path))


def _files_below(path: Path) -> Iterator[tuple[Path, Path]]:
    """Yield (path, relative name) of the files of a directory, or of a single file."""
    if path.is_dir():
        return ((each, each.relative_to(path)) for each in _all(path))
    return iter([(path, Path(path.name))])


def _check_java(connection: Connection, least: int) -> None:
    host = connection.host
    code, out, _ = connection.try_run(["sh", "-c", f"PATH={SEARCH_PATH} java -version 2>&1"])
    release = major_release(out.decode(errors="replace")) if code == 0 else None
    if release is None or release < least:
        found = "has none" if release is None else f"has Java {release}"
        raise SshError(
            f"{host.label}: Kafka needs Java {least} or later there, and the machine {found} on "
            f"its PATH: apt-get install openjdk-{least}-jre-headless on that machine"
        )


def _exists(connection: Connection, place: PurePosixPath) -> bool:
    return connection.try_run(connection.as_root(["test", "-e", str(place)]))[0] == 0


@contextmanager
def _new_directory(connection: Connection, place: PurePosixPath) -> Iterator[PurePosixPath]:
    """Make an empty directory for the block to fill; rename it to `place` when it is complete."""
    new = PurePosixPath(f"{place}.new")
    connection.run(["rm", "-rf", str(new)])
    connection.run(["mkdir", "-p", str(new)])
    yield new
    connection.run(["mv", "-T", str(new), str(place)])
    sync(connection, place)


def sync(connection: Connection, place: PurePosixPath) -> None:
    """Write the file system of `place` to the disk, because the machine may lose its power."""
    connection.run(["sync", "-f", str(place)])


def unpack(connection: Connection, directory: PurePosixPath, content: bytes) -> None:
    """Unpack a gzipped tar below a directory of the machine. Raises SshError."""
    connection.run(
        ["tar", "-xzf", "-", "--no-same-owner", "-C", str(directory)],
        content=content,
        timeout_s=INSTALL_TIMEOUT_S,
    )


def _python_version(connection: Connection) -> tuple[tuple[int, ...], str]:
    host = connection.host
    code, out, errors = connection.try_run([host.python, "-c", _VERSION_SCRIPT])
    if code != 0:
        raise SshError(
            f"{host.label}: {host.python} does not run there ({errors or code}), and the agent and "
            f"the node need Python {_dotted(MIN_PYTHON)} or later: apt-get install python3 on that "
            "machine, or set `python` in the inventory"
        )
    version, abi = json.loads(out)
    if tuple(version) < MIN_PYTHON:
        raise SshError(
            f"{host.label}: {host.python} is Python {_dotted(version)}, too old: install Python "
            f"{_dotted(MIN_PYTHON)} or later there, and set `python` in the inventory to its path"
        )
    return tuple(version), str(abi)


def _pip(connection: Connection, place: PurePosixPath, version: Sequence[int]) -> None:
    wanted = [f"{each.name}=={each.version}" for each in _distributions()]
    try:
        connection.run([connection.host.python, "-m", "venv", str(place)])
        pip = [str(place / "bin/python"), "-m", "pip", "install", "--quiet", *wanted]
        connection.run(pip, timeout_s=INSTALL_TIMEOUT_S)
    except SshError as error:
        raise SshError(
            f"{connection.host.label} has Python {_dotted(version)}, and the harness another "
            f"version, so pip must install the libraries there, and that failed: {error}. Give the "
            "machine access to a package index, or the harness's version of Python"
        ) from error


@cache
def sources(module: str) -> tuple[str, bytes]:
    """Return a digest and a gzipped tar of the sources that `module` needs. Raises PlanError."""
    top = module.partition(".")[0]
    roots = [_root(name) for name in dict.fromkeys((*PACKAGES, top))]
    files = [(path, path.relative_to(root.parent)) for root in roots for path in _all(root)]
    return _digest(files), _gzipped_tar(files)


def _libraries_digest(abi: str) -> str:
    """Return a digest of the libraries' versions and of the Python that they are for."""
    text = " ".join([abi, *(f"{each.name}=={each.version}" for each in _distributions())])
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _library_files() -> Iterator[tuple[Path, Path]]:
    """Yield (path, relative name) of every file of the libraries."""
    for each in _distributions():
        for file in each.files or ():
            if file.suffix != ".pyc" and ".." not in file.parts:
                yield Path(str(file.locate())), Path(file)


def _root(package: str) -> Path:
    if package in PACKAGES:
        return Path(import_module(package).__path__[0])  # the version that the run's record names
    # The search path of `python -m`: the current directory comes first.
    spec = PathFinder.find_spec(package, [str(Path.cwd()), *sys.path])
    if spec is None or not spec.submodule_search_locations:
        raise PlanError(
            f"broker_module: there is no package {package} here to copy to the machines: run "
            "highwater in the directory that contains it"
        )
    return Path(spec.submodule_search_locations[0])


def _all(root: Path) -> Iterator[Path]:
    return (p for p in sorted(root.rglob("*")) if p.is_file() and p.suffix != ".pyc")


def _digest(files: Iterable[tuple[Path, Path]]) -> str:
    """Return a digest of names and contents."""
    digest = blake2b(digest_size=8)
    for path, name in files:
        content = path.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _gzipped_tar(files: Iterable[tuple[Path, Path]]) -> bytes:
    """Pack files into a gzipped tar."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
        for path, name in files:
            content = path.read_bytes()
            entry = tarfile.TarInfo(str(name))
            entry.size, entry.mode = len(content), 0o755 if path.stat().st_mode & 0o100 else 0o644
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _distributions() -> list[importlib.metadata.Distribution]:
    """Return the installed libraries and their dependencies, sorted by name."""
    found: dict[str, importlib.metadata.Distribution] = {}
    todo = list(LIBRARIES)
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if name in found:
            continue
        found[name] = importlib.metadata.distribution(name)
        for text in found[name].requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                todo.append(needed.name)
    return [found[name] for name in sorted(found)]


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))
