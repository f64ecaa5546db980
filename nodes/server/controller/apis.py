"""What the controller's listener serves besides the quorum's own requests."""

from nodes.server.controller.administration import AdminRequestHandler
from nodes.server.controller.brokers import BrokerRequestHandler
from nodes.server.controller.controller import QuorumController
from nodes.server.controller.recovery import UncleanRecoveryManager
from nodes.wire.server import Api


def controller_apis(shell: QuorumController, recovery: UncleanRecoveryManager) -> dict[int, Api]:
    """The requests of brokers and the administrative ones, by api key."""
    return {**BrokerRequestHandler(shell).apis(), **AdminRequestHandler(shell, recovery).apis()}
