"""A broker that speaks the Kafka protocol: `python -m nodes server.properties`.

It knows nothing of faults, of the harness or of the checkers.
"""

import os

import nodes.kio_alone  # noqa: F401 - before anything here imports kio
from nodes import sources

if os.environ.get(sources.VARIABLE) == "1":
    sources.use_sources()
