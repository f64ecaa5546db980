"""The transaction coordinators of a broker, with all that they need of the cluster."""

from collections.abc import Callable

from nodes.config import NodeConfig
from nodes.coordinators.internal_topics import TRANSACTIONS_TOPIC
from nodes.coordinators.transactions.coordinator import TransactionCoordinator
from nodes.metadata.image import ClusterImage
from nodes.metadata.records import TRANSACTION_VERSION_FEATURE
from nodes.server.control_plane import ControllerClient, Registration
from nodes.server.coordinators.brokers import BrokerLink
from nodes.server.coordinators.completions import Completions
from nodes.server.coordinators.markers import MarkerSender
from nodes.server.coordinators.producer_ids import ProducerIds
from nodes.server.coordinators.shards import Shards
from nodes.server.coordinators.verifier import CoordinatorVerifier
from nodes.wire.client import Channel


class Transactions:
    """See the module. `image` returns the cluster's newest image."""

    def __init__(
        self,
        config: NodeConfig,
        controller: ControllerClient,
        registration: Registration,
        image: Callable[[], ClusterImage],
        connect: Callable[[str, int], Channel],
        wall_clock_ms: Callable[[], int],
    ) -> None:
        settings = config.transactions
        self.image = image
        self.ids = ProducerIds(config.node_id, controller, registration)
        self.shards = Shards(
            TRANSACTIONS_TOPIC,
            lambda: TransactionCoordinator(
                settings.transactions,
                transaction_version=self.version,
                new_id=self.ids.take,
                decided=self._markers.wake,
                completed=self.completions.completed,
            ),
            image,
            wall_clock_ms,
            commit_timeout_ms=settings.request_timeout_ms,
        )
        self.completions = Completions(self.shards)
        # Two connections to each broker: an answer to one kind may wait for one of the other kind.
        self._links = [BrokerLink(image, config.inter_broker_listener, connect) for _ in range(2)]
        self._markers = MarkerSender(self.shards, self._links[0], image)
        self.verifier = CoordinatorVerifier(self._links[1], image)

    def version(self) -> int:
        """The finalised level of transaction.version."""
        return self.image().features.get(TRANSACTION_VERSION_FEATURE, 0)

    def close(self) -> None:
        """This broker stops."""
        self.shards.close()
        self._markers.close()
        for link in self._links:
            link.close()
        self.ids.close()
