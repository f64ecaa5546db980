"""Seeded faults for a network of quorum members."""

from tests.support.nodes.quorum_network import Network


def chaos(network: Network, rounds: int, *, upheaval: bool = False) -> None:
    """Seeded faults: crashes, restarts, cuts of single links and of groups, appends throughout.

    With `upheaval` also snapshots, lost disks, and changes of the voters.
    """
    rng = network.rng
    nodes = list(network.nodes.values())
    for _ in range(rounds):
        node = rng.choice(nodes)
        match rng.randrange(10 if upheaval else 7):
            case 0 | 1 if node.quorum is not None:
                network.crash(node, power_loss=rng.random() < 0.7)
            case 0 | 1 | 2 if node.quorum is None:
                network.start(node)
            case 2:
                side = {n.node_id: rng.random() < 0.5 for n in nodes}
                for a in network.nodes:
                    for b in network.nodes:
                        network.cut[a, b] = side[a] != side[b]
            case 3:
                peer = rng.choice(nodes)
                network.cut[node.node_id, peer.node_id] = True
            case 4:
                network.cut.clear()
            case 7:
                for n in nodes:
                    if n.quorum is not None and rng.random() < 0.8:
                        n.log.take_snapshot(n.quorum.high_watermark)
            case 8:
                network.change_voters()
            case 9 if rng.random() < 0.5 and network.may_wipe(node):
                network.wipe(node)
            case _:
                leader = network.leader()
                if leader is not None and leader.quorum is not None and rng.random() < 0.1:
                    network._do(leader, leader.quorum.resign(network.now_ms))
        for _ in range(rng.randint(1, 4)):
            for n in nodes:
                network.append(n)
            network.run(rng.uniform(10, 700))
