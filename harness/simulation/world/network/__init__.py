"""TCP in memory between the hosts of a simulated world, and the faults of its links.

Programs reach it through their event loop only. Nodes decide themselves what they send.

    link         one direction between two machines: latency, losses, cuts
    network      machines, listeners, new connections
    tcp          the kernel's side of a connection
    transport    the program's side of a connection
    observer     the protocol of what may watch the network
    link_faults  cuts, bad links and resets, for nemesis
"""
