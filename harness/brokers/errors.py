"""What can go wrong with brokers before a run can use them."""


class DeployError(Exception):
    """The cluster could not be brought into the state that the plan describes."""
