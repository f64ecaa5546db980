"""The error tree of the control plane.

MetadataError     a record of the metadata log cannot be read or does not fit the image before it:
                  the log is damaged or from another version, and nothing was applied
ControlError      the controller refused an operation: it surely did not happen; `code` is the
                  error that Kafka names for the reason, the message is for people
"""

from typing import Self

from kio.schema.errors import ErrorCode


class MetadataError(Exception):
    """A metadata record that cannot be decoded, or that contradicts the image it is applied to."""


class ControlError(Exception):
    """The controller refused: nothing was, or will be, written for this operation."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message

    def kept(self) -> Self:
        """Itself, fit to be part of an answer: without the frames that it was raised through.

        Those hold the answer, which holds it: what a refused request consists of, however large,
        would stay in memory until a collection of all that there is.
        """
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)
