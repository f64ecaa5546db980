"""In-process clusters whose listeners are secured, and the settings that clients need for them."""

from typing import Any

from nodes.server.security import NodeSecurity
from nodes.wire.client import Channel
from tests.support.nodes.certificates import Certificates
from tests.support.nodes.cluster import Cluster, free_ports

JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="node" password="between nodes" user_node="between nodes" user_alice="secret";'
)
USER, PASSWORD = "alice", "secret"
LISTENERS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")


class SecuredCluster(Cluster):
    """Nodes speak SASL_SSL among each other, and with clients by each of LISTENERS."""

    def __init__(self, count: int, files: Certificates, **extra: str) -> None:
        super().__init__(count)
        self._extra = extra
        self._files = files
        ports = free_ports(count * (len(LISTENERS) - 1))
        self.by_listener = {"SASL_SSL": dict(self.ports)}
        for at, listener in enumerate(LISTENERS[:-1]):
            mine = ports[at * count : (at + 1) * count]
            self.by_listener[listener] = dict(zip(self.ids, mine, strict=True))

    def _properties(self, node: int) -> dict[str, str]:
        plain = super()._properties(node)
        controller = plain["listeners"].partition(",")[2]
        listeners = [f"{name}://127.0.0.1:{self.by_listener[name][node]}" for name in LISTENERS]
        sasl = {
            f"listener.name.{name}.plain.sasl.jaas.config": JAAS
            for name in ("sasl_plaintext", "sasl_ssl", "controller")
        }
        return {
            **plain,
            "listeners": ",".join([*listeners, controller]),
            "listener.security.protocol.map": "SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,"
            "SASL_SSL:SASL_SSL,CONTROLLER:SASL_SSL",
            "inter.broker.listener.name": "SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._files.node),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._files.authority),
            **sasl,
            **self._extra,
        }

    async def start(self, node: int) -> None:
        await super().start(node)
        instance = self.nodes[node]
        assert instance is not None
        # The test asks as a node would: by SASL_SSL, with the node's own credentials.
        self._channels[node] = Channel(
            "127.0.0.1",
            self.ports[node],
            client_id="test",
            request_timeout_s=5.0,
            security=NodeSecurity(instance.config).client("SASL_SSL"),
        )


def librdkafka(
    listener: str, port: int, files: Certificates, password: str = PASSWORD
) -> dict[str, Any]:
    """Settings of confluent-kafka, and with -X of kcat."""
    settings: dict[str, Any] = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": listener,
    }
    if "SSL" in listener.replace("SASL", ""):
        settings["ssl.ca.location"] = str(files.authority)
    if listener.startswith("SASL"):
        settings |= {"sasl.mechanism": "PLAIN", "sasl.username": USER, "sasl.password": password}
    return settings


def python_clients(listener: str, port: int, files: Certificates) -> dict[str, Any]:
    """Settings of kafka-python and of aiokafka (which wants a context instead of a file)."""
    settings: dict[str, Any] = {
        "bootstrap_servers": f"127.0.0.1:{port}",
        "security_protocol": listener,
    }
    if "SSL" in listener.replace("SASL", ""):
        settings["ssl_cafile"] = str(files.authority)
    if listener.startswith("SASL"):
        settings |= {
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": USER,
            "sasl_plain_password": PASSWORD,
        }
    return settings
