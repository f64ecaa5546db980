"""The image of a program that is tested in containers, built without a registry.

It is the Debian of `docker_daemon` with Kafka's client library of this environment and the program.
"""

import io
import tarfile
from importlib import metadata
from pathlib import Path

import docker

from tests.support.targets import docker_daemon

LIBRARY = "confluent-kafka"
PACKAGES = "/opt/packages"
DOCKERFILE = f"""
FROM {docker_daemon.BASE}
COPY packages {PACKAGES}
COPY app.py /app.py
ENV PYTHONPATH={PACKAGES} PYTHONUNBUFFERED=1
ENTRYPOINT ["python3", "/app.py"]
"""


def build(address: str, name: str, program: str) -> None:
    """Build an image whose entry point is the Python program."""
    client = docker.APIClient(base_url=address, timeout=300)
    try:
        lines = [
            str(part)
            for part in client.build(
                fileobj=_context(program), custom_context=True, tag=name, rm=True, decode=True
            )
        ]
        assert not any("'error'" in line for line in lines), "\n".join(lines[-20:])
    finally:
        client.close()


def _context(program: str) -> io.BytesIO:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, text in (("Dockerfile", DOCKERFILE), ("app.py", program)):
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
        found = metadata.distribution(LIBRARY)
        for file in found.files or ():
            path = Path(str(found.locate_file(file)))
            if ".." not in file.parts and file.suffix != ".pyc" and path.is_file():
                tar.add(path, f"packages/{file}")
    packed.seek(0)
    return packed
