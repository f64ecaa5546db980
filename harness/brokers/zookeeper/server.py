"""The configuration and the command of one ZooKeeper server.

Timeouts are short, as those of the brokers, so that an ensemble elects a leader within a second or
two. Snapshots and transaction logs are never removed: the history of the znodes is read from them.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from harness.brokers.kafka.home import find_java, java_directories
from harness.brokers.kafka.program import QUICK_START
from harness.brokers.program import Command, NodeFiles
from harness.brokers.zookeeper.home import ZooKeeperHome, find_zookeeper

CLIENT_PORT: Final = 2181
FOLLOWER_PORT: Final = 2888
ELECTION_PORT: Final = 3888
TICK_MS: Final = 500
"""ZooKeeper's unit of time. Followers leave a leader that is silent for SYNC_TICKS of them."""
INIT_TICKS: Final = 10
SYNC_TICKS: Final = 4
MAX_SESSION_MS: Final = 60_000
CONFIGURATION: Final = "zoo.cfg"
DATA: Final = Path("data", "zookeeper")
"""Below the volume's root, which may hold the file system's own directories."""
HEAP: Final = "-Xms64m -Xmx192m"
SETTINGS: Final[Mapping[str, str]] = {
    "zookeeper.preAllocSize": "64",  # kB by which a log grows: the disk of a node is small
    "zookeeper.admin.enableServer": "false",
    "zookeeper.jmx.log4j.disable": "true",
}
MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
HERE: Final = Path(__file__).parent


def server_configuration(server: int, addresses: Mapping[int, str], data: Path) -> str:
    """Return zoo.cfg of the server with this number. Pure.

    `addresses` has every server of the ensemble. A server on its own runs without an ensemble.
    """
    lines = {
        "tickTime": TICK_MS,
        "initLimit": INIT_TICKS,
        "syncLimit": SYNC_TICKS,
        "minSessionTimeout": TICK_MS,
        "maxSessionTimeout": MAX_SESSION_MS,
        "dataDir": data,
        "clientPort": CLIENT_PORT,
        "clientPortAddress": addresses[server],
        "maxClientCnxns": 0,
        "autopurge.purgeInterval": 0,
        "4lw.commands.whitelist": "srvr,ruok",
    }
    text = "".join(f"{name}={value}\n" for name, value in lines.items())
    if len(addresses) == 1:
        return text
    return text + "".join(
        f"server.{each}={address}:{FOLLOWER_PORT}:{ELECTION_PORT}\n"
        for each, address in sorted(addresses.items())
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeper:
    """ZooKeeper's server of one home."""

    home: ZooKeeperHome
    java: str

    @classmethod
    def find(cls) -> Self:
        """Return this machine's ZooKeeper. Raises PlanError without jars, DeployError without
        Java."""
        return cls(home=find_zookeeper(), java=find_java())

    def versions(self) -> Mapping[str, str]:
        """Return ZooKeeper's version."""
        return {"zookeeper": self.home.version}

    def required_files(self) -> Sequence[Path]:
        """Return the files and directories of the harness's machine that a server reads."""
        return [self.home.directory, *java_directories(Path(self.java)), HERE]

    def configure(self, files: NodeFiles, server: int, addresses: Mapping[int, str]) -> None:
        """Write zoo.cfg, and the file that tells a server its number."""
        data = files.properties.with_name(DATA.parts[0]) / DATA.parts[1]
        local = files.local_dir / DATA
        local.mkdir(parents=True, exist_ok=True)
        (local / "myid").write_text(f"{server}\n")
        text = server_configuration(server, addresses, data)
        (files.local_dir / CONFIGURATION).write_text(text)

    def command(self, files: NodeFiles) -> Command:
        """Return the command that starts a configured server."""
        place = files.path_on_node
        classpath = [str(place(Path(each))) for each in self.home.classpath]
        argv = (
            self.java,
            *shlex.split(f"{HEAP} {QUICK_START}"),
            *(f"-D{name}={value}" for name, value in SETTINGS.items()),
            f"-Dlogback.configurationFile={place(HERE / 'logback.xml')}",
            f"-Dlog4j.configuration=file:{place(HERE / 'log4j.properties')}",
            "-cp",
            ":".join(classpath),
            MAIN,
            str(files.properties.with_name(CONFIGURATION)),
        )
        return Command(argv=argv, env=dict(files.environment))
