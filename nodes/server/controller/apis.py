"""The apis of the controller's listener, besides the quorum's own requests."""

from nodes.server.controller.administration import AdminRequestHandler
from nodes.server.controller.brokers import BrokerRequestHandler
from nodes.server.controller.controller import QuorumController
from nodes.server.controller.recovery import UncleanRecoveryManager
from nodes.wire.server import Api


def controller_apis(
    controller: QuorumController, recovery: UncleanRecoveryManager
) -> dict[int, Api]:
    """The apis for brokers and for administrative requests, by api key."""
    return {
        **BrokerRequestHandler(controller).apis(),
        **AdminRequestHandler(controller, recovery).apis(),
    }
