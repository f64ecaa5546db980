"""A broker: `python -m nodes server.properties`."""

import nodes.kio_alone  # noqa: F401 - before anything here imports kio
