"""What can be wrong with a plan."""


class PlanError(Exception):
    """A plan that cannot be run; the message says what is wrong, where, and what to do."""
