"""What notes kernel objects before they are made, so that they can be removed."""

from typing import Protocol


class Recorder(Protocol):
    """The part of the journal that is needed to make kernel objects."""

    def record(self, kind: str, /, **fields: object) -> None:
        """Append a record; it is on the disk on return."""
        ...
