"""What can be wrong with a foreign history.

InterchangeError     a text that cannot be taken over; the message says which line or operation
  EdnError           a text that is no EDN
"""


class InterchangeError(Exception):
    """A foreign history that cannot be taken over: what is wrong, where, and what to do."""


class EdnError(InterchangeError):
    """Text that is no EDN; line and column count from 1."""
