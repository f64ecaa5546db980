"""What a machine needs to run a node and its agent: this source, and what that is built on.

It goes below DIRECTORY/env, named by its content, so that it is brought once and found again. Where
the machine's Python is the harness's own (version and architecture), the libraries are copied from
here, and the machine needs no package index; elsewhere pip installs the same versions there.
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
from importlib.machinery import PathFinder
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from packaging.requirements import Requirement

from harness.brokers.kafka.home import major_release
from harness.plans.plan import PlanError
from harness.targets.ssh.connection import Connection, SshError

LIBRARIES: Final = ("kio", "crc32c", "uvloop", "pydantic", "pyroute2", "rich")
"""What nodes and the agent import; whatever these need comes along."""
PACKAGES: Final = ("harness", "nemesis", "nodes")
LEAST_PYTHON: Final = (3, 11)
SEARCH_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
INSTALL_TIMEOUT_S: Final = 300.0

_ASK: Final = (
    "import json,sys,sysconfig;"
    "print(json.dumps([list(sys.version_info[:3]),sysconfig.get_config_var('SOABI')]))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cargo:
    """What nodes and agents need of a machine."""

    module: str
    """What `python -m` runs there, besides the agent."""
    files: Sequence[Path] = ()
    """Files and directories of this machine that nodes read."""
    java: int | None = None
    """Which Java the machine is to have, at least."""


class Installed(NamedTuple):
    """What a machine has now."""

    python: str
    path: str
    """For PYTHONPATH."""
    places: Mapping[Path, PurePosixPath]
    """Where what was brought of the cargo's files is."""


def install(connection: Connection, cargo: Cargo) -> Installed:
    """Have all that a node and its agent need. Raises SshError."""
    host = connection.host
    version, abi = _ask(connection)
    if cargo.java is not None:
        _check_java(connection, cargo.java)
    digest, packed = sources(cargo.module)
    source = host.directory / "env" / f"source-{digest}"
    if not _there(connection, source):
        with _making(connection, source) as new:
            unpack(connection, new, packed)
    libraries = host.directory / "env" / f"libraries-{_versions(abi)}"
    same = abi == sysconfig.get_config_var("SOABI")
    if not _there(connection, libraries):
        with _making(connection, libraries) as new:
            if same:
                unpack(connection, new, _packed(_installed()))
            else:
                _pip(connection, new, version)
    places = {path: _bring(connection, path) for path in cargo.files}
    if same:
        return Installed(host.python, f"{source}:{libraries}", places)
    return Installed(str(libraries / "bin/python"), str(source), places)


def _bring(connection: Connection, path: Path) -> PurePosixPath:
    """Have a file or directory of this machine there; where that is."""
    place = connection.host.directory / "env" / f"{path.name}-{_content(path)}"
    if not _there(connection, place):
        with _making(connection, place) as new:
            unpack(connection, new, _packed(_parts(path)))
    return place if path.is_dir() else place / path.name


@cache
def _content(path: Path) -> str:
    return _digest(_parts(path))


def _parts(path: Path) -> Iterator[tuple[Path, Path]]:
    """The files of a directory, or the file, with their names below it."""
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
            f"its PATH: install openjdk-{least}-jre-headless on it"
        )


def _there(connection: Connection, place: PurePosixPath) -> bool:
    return connection.try_run(connection.as_root(["test", "-e", str(place)]))[0] == 0


@contextmanager
def _making(connection: Connection, place: PurePosixPath) -> Iterator[PurePosixPath]:
    """An empty directory, which becomes `place` when it is complete."""
    new = PurePosixPath(f"{place}.new")
    connection.run(["rm", "-rf", str(new)])
    connection.run(["mkdir", "-p", str(new)])
    yield new
    connection.run(["mv", "-T", str(new), str(place)])
    sync(connection, place)


def sync(connection: Connection, place: PurePosixPath) -> None:
    """Have everything on its file system brought to the disk: the machine may lose its power."""
    connection.run(["sync", "-f", str(place)])


def unpack(connection: Connection, directory: PurePosixPath, content: bytes) -> None:
    """Unpack a gzipped tar below a directory of the machine. Raises SshError."""
    connection.run(
        ["tar", "-xzf", "-", "--no-same-owner", "-C", str(directory)],
        source=io.BytesIO(content),
        timeout_s=INSTALL_TIMEOUT_S,
    )


def _ask(connection: Connection) -> tuple[tuple[int, ...], str]:
    host = connection.host
    code, out, said = connection.try_run([host.python, "-c", _ASK])
    if code != 0:
        raise SshError(
            f"{host.label}: {host.python} does not run there ({said or code}): install Python "
            f"{_dotted(LEAST_PYTHON)} or later, or name it by `python` in the inventory"
        )
    version, abi = json.loads(out)
    if tuple(version) < LEAST_PYTHON:
        raise SshError(
            f"{host.label}: {host.python} is Python {_dotted(version)}, too old: install "
            f"{_dotted(LEAST_PYTHON)} or later, or name it by `python` in the inventory"
        )
    return tuple(version), str(abi)


def _pip(connection: Connection, place: PurePosixPath, version: Sequence[int]) -> None:
    wanted = [f"{each.name}=={each.version}" for each in _closure()]
    try:
        connection.run([connection.host.python, "-m", "venv", str(place)])
        pip = [str(place / "bin/python"), "-m", "pip", "install", "--quiet", *wanted]
        connection.run(pip, timeout_s=INSTALL_TIMEOUT_S)
    except SshError as error:
        raise SshError(
            f"{connection.host.label} has Python {_dotted(version)} where we have another, so its "
            f"libraries must come from a package index, and that failed: {error}"
        ) from error


@cache
def sources(module: str) -> tuple[str, bytes]:
    """What runs `module`: a digest, and a gzipped tar. Raises PlanError for what is not here."""
    top = module.partition(".")[0]
    roots = [_root(name) for name in dict.fromkeys((*PACKAGES, top))]
    files = [(path, path.relative_to(root.parent)) for root in roots for path in _all(root)]
    return _digest(files), _packed(files)


def _versions(abi: str) -> str:
    """Names the libraries by what is in them, and for which Python."""
    text = " ".join([abi, *(f"{each.name}=={each.version}" for each in _closure())])
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _installed() -> Iterator[tuple[Path, Path]]:
    """Every file of the libraries, and its path below the directory of all."""
    for each in _closure():
        for file in each.files or ():
            if file.suffix != ".pyc" and ".." not in file.parts:
                yield Path(str(file.locate())), Path(file)


def _root(package: str) -> Path:
    # As `python -m` finds it, from the directory where one is.
    spec = PathFinder.find_spec(package, [str(Path.cwd()), *sys.path])
    if spec is None or not spec.submodule_search_locations:
        raise PlanError(f"broker_module: there is no package {package} here to be brought along")
    return Path(spec.submodule_search_locations[0])


def _all(root: Path) -> Iterator[Path]:
    return (p for p in sorted(root.rglob("*")) if p.is_file() and p.suffix != ".pyc")


def _digest(files: Iterable[tuple[Path, Path]]) -> str:
    """Of names and contents."""
    digest = blake2b(digest_size=8)
    for path, name in files:
        content = path.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _packed(files: Iterable[tuple[Path, Path]]) -> bytes:
    """A gzipped tar."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
        for path, name in files:
            content = path.read_bytes()
            entry = tarfile.TarInfo(str(name))
            entry.size, entry.mode = len(content), 0o755 if path.stat().st_mode & 0o100 else 0o644
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _closure() -> list[importlib.metadata.Distribution]:
    """The installed libraries and all that they need, by name."""
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
