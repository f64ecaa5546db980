"""The image of the nodes' containers, built from the Dockerfile in this folder.

Its tag is a hash of its content without the base, so that another version of the harness never uses
an old image. The broker's Python packages are copied from the harness's environment. If the base's
Python cannot use them, pip downloads the same versions.
"""

import hashlib
import io
import re
import sys
import tarfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.targets.base import Unsupported
from harness.targets.docker import daemon

if TYPE_CHECKING:
    from docker import DockerClient

NAME: Final = "highwater-node"
PACKAGES: Final = "/opt/highwater"
"""The directory of the packages in the image."""
DEFAULT_BASE: Final = f"python:{sys.version_info.major}.{sys.version_info.minor}-slim"
NEEDED: Final = ("cramjam", "crc32c", "kazoo", "kio", "uvloop", "xxhash")
"""The distributions that the built-in broker imports."""

_DOCKERFILE: Final = Path(__file__).with_name("Dockerfile")
_LAST_LINES: Final = 5


def tag() -> str:
    """Return the name of the image for this version of the harness."""
    return _tag(_context())


def ensure(address: str) -> str:
    """Return the image's name; build it from the default base unless the daemon has it.

    Raises Unsupported when the build fails.
    """
    context = _context()
    with daemon.client(address) as client:
        if client.images.list(name=_tag(context)):
            return _tag(context)
        print(
            f"highwater: building the image of the nodes, {_tag(context)}, from {DEFAULT_BASE}",
            file=sys.stderr,
        )
        return _build(client, context, DEFAULT_BASE)


def build(address: str, base: str) -> str:
    """Build the image from a base and return its name. Raises Unsupported when the build fails."""
    with daemon.client(address) as client:
        return _build(client, _context(), base)


def _build(client: "DockerClient", context: Mapping[str, bytes], base: str) -> str:
    from docker.errors import APIError, BuildError

    name = _tag(context)
    lines: list[str] = []
    try:
        for part in client.api.build(
            fileobj=io.BytesIO(_packed(context)),
            custom_context=True,
            encoding="gzip",
            tag=name,
            buildargs={"BASE": base},
            rm=True,
            forcerm=True,
            decode=True,
        ):
            lines += str(part.get("stream", "")).splitlines()
            if "error" in part:
                raise BuildError(str(part["error"]).strip(), iter(()))
    except (APIError, BuildError) as error:
        reason = error.explanation if isinstance(error, APIError) else error.msg
        output = [line.strip() for line in lines if line.strip()][-_LAST_LINES:]
        raise Unsupported(
            f"the image of the nodes, {name}, cannot be built from {base} ({reason}): build it "
            "from an image with Python that the daemon has or can pull: highwater image build "
            f"--base NAME; the last lines of the build: {' | '.join(output)}"
        ) from error
    return name


def _context() -> dict[str, bytes]:
    """Return the build context: path -> content."""
    found = {"Dockerfile": _DOCKERFILE.read_bytes()}
    needed = sorted(_closure(), key=lambda each: each.name)
    found["requirements.txt"] = "".join(f"{d.name}=={d.version}\n" for d in needed).encode()
    for distribution in needed:
        for file in distribution.files or ():
            path = Path(str(distribution.locate_file(file)))
            # ".." leads to programs beside the packages; .pyc files contain times.
            if ".." not in file.parts and file.suffix != ".pyc" and path.exists():
                found[f"packages/{file}"] = path.read_bytes()
    return found


def _closure() -> Iterator[metadata.Distribution]:
    """Yield the needed distributions and their dependencies."""
    known: set[str] = set()
    waiting = list(NEEDED)
    while waiting:
        name = waiting.pop()
        if name in known:
            continue
        known.add(name)
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # for other versions of Python than this one
        yield found
        for text in found.requires or ():
            requirement, _, condition = text.partition(";")
            if "extra" not in condition and (match := re.match(r"[\w.-]+", requirement)):
                waiting.append(match[0])


def _tag(context: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for path, content in sorted(context.items()):
        digest.update(f"{path} {len(content)} ".encode() + content)
    return f"{NAME}:{digest.hexdigest()[:12]}"


def _packed(context: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
        for path, content in sorted(context.items()):
            info = tarfile.TarInfo(path)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()
