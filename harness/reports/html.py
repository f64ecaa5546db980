"""Shared by all pages that are written or served: templates, and small line charts."""

from collections.abc import Sequence
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

SPARK_WIDTH: Final = 120.0
SPARK_HEIGHT: Final = 22.0
_MARGIN: Final = 2.0


def environment(package: str) -> Environment:
    """Return the templates of a package. All values are escaped; a missing value raises."""
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def spark(values: Sequence[float | None]) -> str:
    """Return values as a line from left to right: an SVG path of SPARK_WIDTH times SPARK_HEIGHT,
    from 0 to the largest value. None is a gap; without any value the path is empty."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    top, step = max(known) or 1.0, SPARK_WIDTH / max(1, len(values) - 1)
    path, pen = [], "M"
    for index, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        y = SPARK_HEIGHT - _MARGIN - (SPARK_HEIGHT - 2 * _MARGIN) * value / top
        path.append(f"{pen}{index * step:.1f},{y:.1f}h0.01")
        pen = "L"
    return "".join(path)
