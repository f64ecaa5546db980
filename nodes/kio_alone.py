"""Imports kio's types without Hypothesis; must be the first import of kio.

kio registers its types with Hypothesis if Hypothesis is installed. That would cost a broker, a
client or a command a second at every start, and leave a directory `.hypothesis` behind. If
Hypothesis is imported already, as in tests, this module changes nothing.
"""

import sys
from typing import Final

HYPOTHESIS: Final = "hypothesis"


def _import_kio() -> None:
    if HYPOTHESIS in sys.modules:
        return
    sys.modules[HYPOTHESIS] = None  # type: ignore[assignment]  # makes its import fail
    try:
        import kio.static.primitive  # noqa: F401
    finally:
        del sys.modules[HYPOTHESIS]


_import_kio()
