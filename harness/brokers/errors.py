"""The error of a cluster that does not come up."""


class DeployError(Exception):
    """The cluster did not reach the state that the plan describes."""
