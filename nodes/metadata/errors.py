"""The errors of metadata and controller.

MetadataError     a record of the metadata log cannot be read, or contradicts the image before it:
                  the log is damaged or from another version; nothing was applied
ControlError      the controller refused an operation: it surely did not happen; `code` is Kafka's
                  error code for the reason, the message is for people
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
        """Return this error without traceback, cause and context, so that it can be stored.

        A traceback would refer to the response, which refers to the error. This cycle would keep
        the refused request in memory, however large, until a full garbage collection.
        """
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)
