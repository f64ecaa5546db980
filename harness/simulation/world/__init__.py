"""A simulated world: real nodes, many in one process, on virtual time, repeatable from a seed. The
world knows nothing of plans, workloads or verdicts; `harness.simulation` runs plans in it.

    world          the clock, the order of all events, the random streams
    loop           the asyncio event loop of one incarnation of a host
    host           a machine that is booted, paused, stopped and killed
    network        TCP in memory, and the faults of its links
    disk           a disk with a page cache; disk_faults breaks it
    clocks         the hosts' wall clocks
    guard          refuses the real clock, network and randomness while a world runs
    cluster        the unmodified built-in brokers in a world
    target         a simulated cluster as a target for faults
    synchronous    synchronous code (faults, phases of a run) in the world's time
    trace          a hash of everything that happened
"""
