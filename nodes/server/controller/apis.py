"""What the controller's listener serves besides the quorum's own requests."""

from nodes.server.controller.administration import AdminRequests
from nodes.server.controller.brokers import BrokerRequests
from nodes.server.controller.controller import ControllerShell
from nodes.server.controller.recovery import Recovery
from nodes.wire.server import Api


def controller_apis(shell: ControllerShell, recovery: Recovery) -> dict[int, Api]:
    """The requests of brokers and the administrative ones, by api key."""
    return {**BrokerRequests(shell).apis(), **AdminRequests(shell, recovery).apis()}
