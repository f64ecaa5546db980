"""Imports kio's types without Hypothesis, before anybody else imports them.

kio tells Hypothesis of its types wherever that is installed. For a broker, a client or a command
that is a second at every start, and a directory `.hypothesis` wherever it was started. Where
Hypothesis is imported already, in tests, nothing is different.
"""

import sys
from typing import Final

HYPOTHESIS: Final = "hypothesis"


def _import_kio() -> None:
    if HYPOTHESIS in sys.modules:
        return
    sys.modules[HYPOTHESIS] = None  # type: ignore[assignment]  # it cannot be imported meanwhile
    try:
        import kio.static.primitive  # noqa: F401
    finally:
        del sys.modules[HYPOTHESIS]


_import_kio()
