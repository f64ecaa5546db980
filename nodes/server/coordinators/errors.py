"""The error of a coordinator that cannot serve an operation now."""

from kio.schema.errors import ErrorCode


class CoordinatorError(Exception):
    """The operation has no answer; `code` is Kafka's error for the client.

    With NOT_COORDINATOR and COORDINATOR_LOAD_IN_PROGRESS nothing happened, unless the operation was
    waiting for its answer: then its records may become committed.
    """

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code
