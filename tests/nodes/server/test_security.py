"""Listeners with TLS and passwords: configuration, accepted and refused connections."""

import asyncio
import logging
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from nodes.config import ConfigError, load_config
from nodes.server.security import NodeSecurity, parse_jaas
from nodes.wire.client import Channel
from nodes.wire.errors import ConnectFailed, Disconnected
from nodes.wire.security import ClientSecurity, Credentials
from nodes.wire.versions import fill
from tests.nodes.server.test_hostile import frame, head, read_to_end
from tests.support.nodes import certificates
from tests.support.nodes.certificates import Certificates
from tests.support.nodes.secured import (
    JAAS,
    LISTENERS,
    USER,
    SecuredCluster,
    librdkafka,
    python_clients,
)
from tests.support.require import require

PATIENCE_S = 60
VALUE = b"behind a lock"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """One set for all."""
    return certificates.make(tmp_path_factory.mktemp("certificates"))


@asynccontextmanager
async def secured(count: int, files: Certificates, **extra: str) -> AsyncIterator[SecuredCluster]:
    """A cluster in service, with a topic."""
    cluster = SecuredCluster(count, files, **extra)
    try:
        for node in cluster.ids:
            await cluster.start(node)
        await cluster.in_service(count)
        await cluster.create_topic("t", num_partitions=1, replication_factor=count)
        yield cluster
    finally:
        await cluster.close()


# -- configuration -------------------------------------------------------------------------------


def properties(**changes: str) -> dict[str, str]:
    """Of one node that could be plaintext; underscores of `changes` stand for dots."""
    return {
        "node.id": "1",
        "process.roles": "broker",
        "listeners": "SASL_PLAINTEXT://127.0.0.1:9092",
        "controller.quorum.voters": "2@127.0.0.1:9093",
        "log.dirs": "/memory",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
        **{key.replace("_", "."): value for key, value in changes.items()},
    }


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (JAAS, {"username": "node", "password": "between nodes"}),
        ('{} required user_a="x;y" user_b = plain ;', {"user_a": "x;y", "user_b": "plain"}),
        ('{} required\n  user_a="say \\"hi\\" \\\\"', {"user_a": 'say "hi" \\'}),
        ("{} required;", {}),
    ],
)
def test_jaas_line_is_parsed_as_in_java(text: str, options: dict[str, str]) -> None:
    """Quotes, escapes, blanks and line ends."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    assert parse_jaas(text.replace("{}", module)).items() >= options.items()


@pytest.mark.parametrize(
    "text", ["", "x", "x.Y required;", '{} required user_a="x', "{} required a b;"]
)
def test_invalid_jaas_line_is_refused(text: str) -> None:
    """It is not read as something else."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    with pytest.raises(ValueError):
        parse_jaas(text.replace("{}", module))


def test_jaas_line_gives_users_and_own_credentials() -> None:
    """Users are for incoming connections, username and password for outgoing ones."""
    security = NodeSecurity(load_config(properties())[0])
    users = security.server("SASL_PLAINTEXT").users
    assert users == {"node": "between nodes", "alice": "secret"}
    assert security.client("SASL_PLAINTEXT").credentials == Credentials(
        username="node", password="between nodes"
    )
    assert "secret" not in repr(security.server("SASL_PLAINTEXT"))
    assert security.client("CONTROLLER") == ClientSecurity()


def test_controller_has_client_security_of_the_inter_broker_listener() -> None:
    """It asks brokers for their logs, on a listener that it does not serve."""
    alone = {"process_roles": "controller", "listeners": "CONTROLLER://h:1", "node_id": "2"}
    config = load_config(properties(**alone))[0]
    assert config.inter_broker_listener == "SASL_PLAINTEXT"
    assert NodeSecurity(config).client("SASL_PLAINTEXT").credentials is not None
    own = properties(
        **alone,
        inter_broker_listener_name="BETWEEN",
        listener_security_protocol_map="BETWEEN:PLAINTEXT,CONTROLLER:PLAINTEXT",
    )
    del own["security.inter.broker.protocol"]
    config = load_config(own)[0]
    assert config.inter_broker_listener == "BETWEEN"
    assert NodeSecurity(config).client("BETWEEN") == ClientSecurity()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sasl_enabled_mechanisms": "PLAIN,GSSAPI"}, "sasl.enabled.mechanisms"),
        ({"sasl_mechanism_inter_broker_protocol": "GSSAPI"}, "sasl.mechanism.inter.broker"),
        ({"listeners": "SSL://h:1", "security_inter_broker_protocol": "SSL"}, "ssl.keystore"),
        ({"listeners": "MINE://h:1"}, "listener MINE has no entry"),
        ({"security_inter_broker_protocol": "SSL"}, "no listener uses it"),
        ({"inter_broker_listener_name": "SASL_PLAINTEXT"}, "not both"),
        ({"listener_security_protocol_map": "A:TLS"}, "is not NAME:PROTOCOL"),
    ],
)
def test_invalid_security_settings_raise_config_error(
    changes: dict[str, str], message: str
) -> None:
    """The message names the property."""
    with pytest.raises(ConfigError, match=message):
        NodeSecurity(load_config(properties(**changes))[0])


def test_keys_are_read_from_files_and_from_properties(files: Certificates, tmp_path: Path) -> None:
    """As one file, and as texts on one line."""
    tls = {
        "listeners": "SSL://h:1",
        "security_inter_broker_protocol": "SSL",
        "ssl_keystore_type": "PEM",
        "ssl_truststore_type": "PEM",
    }
    node = files.node.read_text()
    key, chain = node[: node.index("-----BEGIN CERT")], node[node.index("-----BEGIN CERT") :]
    texts = {
        "ssl_keystore_key": key.replace("\n", " "),
        "ssl_keystore_certificate_chain": chain.replace("\n", "\\n"),
        "ssl_truststore_certificates": files.authority.read_text().replace("\n", " "),
    }
    paths = {
        "ssl_keystore_location": str(files.node),
        "ssl_truststore_location": str(files.authority),
    }
    for given in (texts, paths):
        security = NodeSecurity(load_config(properties(**tls, **given))[0])
        assert security.server("SSL").tls is not None
        client = security.client("SSL").tls
        assert client is not None
        assert len(client.get_ca_certs()) == 1
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    with pytest.raises(ConfigError, match=r"empty\.pem"):
        NodeSecurity(load_config(properties(**tls, ssl_keystore_location=str(empty)))[0])


# -- doors ---------------------------------------------------------------------------------------


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the node said of bad peers."""
    return [each.getMessage() for each in caplog.records if each.name == "nodes.wire"]


def test_unauthenticated_connections_are_closed(
    files: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    """Wrong passwords, other protocols, requests before authentication: one line each."""

    async def run() -> None:
        async with secured(1, files) as cluster:
            caplog.clear()
            await wrong_password(cluster)
            assert "Invalid username or password (user 'alice')" in lines(caplog)[-1]
            for listener in ("SSL", "SASL_SSL", "CONTROLLER"):
                reader, writer = await asyncio.open_connection("127.0.0.1", port(cluster, listener))
                writer.write(frame(head(18, 0)))
                await read_to_end(reader)
                writer.close()
                assert "the peer does not speak TLS" in lines(caplog)[-1]
            reader, writer = await asyncio.open_connection("127.0.0.1", port(cluster, LISTENERS[1]))
            writer.write(frame(head(18, 0)) + frame(head(3, 1), b"\0\0\0\0"))
            await read_to_end(reader)
            writer.close()
            assert "api key 3 before authentication" in lines(caplog)[-1]
            assert len(lines(caplog)) == 5
            await cluster.metadata(1, "t")

    async def wrong_password(cluster: SecuredCluster) -> None:
        who = Credentials(username=USER, password="wrong")
        security = ClientSecurity(credentials=who)
        at = port(cluster, "SASL_PLAINTEXT")
        channel = Channel("127.0.0.1", at, client_id="c", security=security)
        with pytest.raises(ConnectFailed, match="Invalid username or password"):
            await channel.request(fill(load_request_schema(3, 12)))
        channel.close()

    with caplog.at_level(logging.INFO, logger="nodes"):
        asyncio.run(run())


def port(cluster: SecuredCluster, listener: str) -> int:
    """Where node 1 listens."""
    node = cluster.nodes[1]
    assert node is not None
    return next(each.port for each in node.config.listeners if each.listener == listener)


def test_client_certificate_is_required_and_gives_the_principal(files: Certificates) -> None:
    """ssl.client.auth=required accepts certificates of the authority."""

    async def run() -> None:
        extra = {"listener.name.ssl.ssl.client.auth": "required"}
        async with secured(1, files, **extra) as cluster:
            for key, welcome in ((files.client, True), (files.stranger, False), (None, False)):
                context = ssl.create_default_context(cafile=str(files.authority))
                if key is not None:
                    context.load_cert_chain(key)
                channel = Channel(
                    "127.0.0.1",
                    port(cluster, "SSL"),
                    client_id="c",
                    security=ClientSecurity(tls=context),
                )
                request = channel.request(fill(load_request_schema(18, 3)))
                if welcome:
                    assert (await request).error_code is ErrorCode.none
                else:
                    with pytest.raises(Disconnected):
                        await request
                channel.close()

    asyncio.run(run())


# -- other people's clients ----------------------------------------------------------------------


def by_confluent(listener: str, at: int, files: Certificates) -> bytes:
    from confluent_kafka import Consumer, Producer, TopicPartition

    settings = librdkafka(listener, at, files)
    producer = Producer(settings)
    producer.produce("t", VALUE)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({**settings, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition("t", 0, 0)])
    message = consumer.poll(PATIENCE_S)
    consumer.close()
    assert message is not None
    assert message.error() is None
    return bytes(message.value())


def by_kafka_python(listener: str, at: int, files: Certificates) -> bytes:
    from tests.support.clients.kafka_python import KafkaConsumer, KafkaProducer, TopicPartition

    settings = python_clients(listener, at, files)
    producer = KafkaProducer(**settings)
    producer.send("t", VALUE, partition=0).get(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(**settings, consumer_timeout_ms=PATIENCE_S * 1000)
    consumer.assign([TopicPartition("t", 0)])
    consumer.seek(TopicPartition("t", 0), 0)
    value = bytes(next(consumer).value)
    consumer.close()
    return value


def by_aiokafka(listener: str, at: int, files: Certificates) -> bytes:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    async def run() -> bytes:
        settings: dict[str, Any] = python_clients(listener, at, files)
        if settings.pop("ssl_cafile", None):
            settings["ssl_context"] = ssl.create_default_context(cafile=str(files.authority))
        producer = AIOKafkaProducer(**settings)
        await producer.start()
        await producer.send_and_wait("t", VALUE, partition=0)
        await producer.stop()
        consumer = AIOKafkaConsumer(**settings)
        await consumer.start()
        consumer.assign([TopicPartition("t", 0)])
        consumer.seek(TopicPartition("t", 0), 0)
        message = await asyncio.wait_for(consumer.getone(), PATIENCE_S)
        await consumer.stop()
        return bytes(message.value)

    return asyncio.run(run())


def by_kcat(listener: str, at: int, files: Certificates) -> bytes:
    require("kcat")
    settings = librdkafka(listener, at, files)
    common = ["kcat", "-b", settings.pop("bootstrap.servers"), "-t", "t", "-p", "0"]
    for key, value in settings.items():
        common += ["-X", f"{key}={value}"]
    subprocess.run([*common, "-P"], input=VALUE, check=True, timeout=PATIENCE_S)
    reading = [*common, "-C", "-o", "0", "-c", "1", "-D", ""]
    return subprocess.run(reading, check=True, timeout=PATIENCE_S, capture_output=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize("client", [by_confluent, by_kafka_python, by_aiokafka, by_kcat])
def test_client_libraries_work_with_every_security_protocol(
    client: Callable[[str, int, Certificates], bytes], files: Certificates
) -> None:
    """Write a record and read the first one back, over TLS, with a password, and with both."""

    async def run() -> None:
        async with secured(1, files) as cluster:
            for listener in LISTENERS:
                found = await asyncio.to_thread(client, listener, port(cluster, listener), files)
                assert found == VALUE, listener

    asyncio.run(run())


@pytest.mark.slow
def test_cluster_replicates_over_sasl_ssl(files: Certificates) -> None:
    """Three nodes: acks=all, a leader stops, and all records are there."""

    async def run() -> None:
        async with secured(3, files) as cluster:
            leader = await cluster.leader("t", isr=3)
            at = cluster.by_listener["SASL_SSL"][leader]
            assert await asyncio.to_thread(by_confluent, "SASL_SSL", at, files) == VALUE
            await cluster.stop(leader)
            await cluster.leader("t", isr=2)
            other = next(node for node in cluster.ids if node != leader)
            at = cluster.by_listener["SSL"][other]
            assert await asyncio.to_thread(by_confluent, "SSL", at, files) == VALUE

    asyncio.run(run())
