"""The configuration of any client process, as the process reads it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from harness.workloads.config import ClientConfig

if TYPE_CHECKING:  # the clients of topics do without it
    from harness.workloads.further_config import FurtherConfig

AnyConfig: TypeAlias = "ClientConfig | FurtherConfig"


def load(path: Path) -> AnyConfig:
    """Read what `save` wrote. Raises OSError, ValueError, TypeError for any other file."""
    values = json.loads(path.read_text())
    if "workload" not in values:
        return ClientConfig(**values)
    from harness.workloads.further_config import FurtherConfig

    return FurtherConfig(**values)
