"""How every kind of record of every target is undone: where their tables come together."""

from collections.abc import Mapping
from typing import Final

from harness.targets.docker import undo as docker
from harness.targets.linux import undo as linux
from harness.targets.linux.undo import Undo

UNDO: Final[Mapping[str, Undo]] = {**linux.UNDO, **docker.UNDO}
