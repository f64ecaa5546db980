"""The files and the command of a ZooKeeper server."""

from pathlib import Path

from harness.brokers.program import NodeFiles
from harness.brokers.zookeeper.home import ZooKeeperHome
from harness.brokers.zookeeper.server import ZooKeeper, server_configuration

ADDRESSES = {1: "10.0.0.101", 2: "10.0.0.102"}


def test_configuration_names_every_server_and_allows_the_probes() -> None:
    """A server serves clients at its own address only."""
    lines = server_configuration(2, ADDRESSES, Path("/d/zookeeper")).splitlines()
    assert "clientPortAddress=10.0.0.102" in lines
    assert "dataDir=/d/zookeeper" in lines
    assert "4lw.commands.whitelist=srvr,ruok" in lines
    assert "server.1=10.0.0.101:2888:3888" in lines
    assert "server.2=10.0.0.102:2888:3888" in lines
    assert "autopurge.purgeInterval=0" in lines


def test_server_on_its_own_has_no_ensemble() -> None:
    """ZooKeeper refuses an ensemble of one."""
    assert "server." not in server_configuration(1, {1: "10.0.0.101"}, Path("/d"))


def test_server_gets_its_number_and_its_command(tmp_path: Path) -> None:
    """The number is in `myid` in the data directory, which is on the node's volume."""
    files = NodeFiles(
        node=102,
        local_dir=tmp_path,
        properties=tmp_path / "server.properties",
        log_dir=tmp_path / "data" / "log",
        python="python3",
        environment={"A": "B"},
    )
    home = ZooKeeperHome(classpath=("/libs/*",), directory=Path("/libs"), version="3.8.4")
    made = ZooKeeper(home=home, java="/bin/java")
    made.configure(files, 2, ADDRESSES)
    assert (tmp_path / "data/zookeeper/myid").read_text() == "2\n"
    assert f"dataDir={tmp_path}/data/zookeeper" in (tmp_path / "zoo.cfg").read_text()
    command = made.command(files)
    assert command.argv[0] == "/bin/java"
    assert command.argv[-1] == f"{tmp_path}/zoo.cfg"
    assert command.argv[command.argv.index("-cp") + 1] == "/libs/*"
    assert command.env == {"A": "B"}
