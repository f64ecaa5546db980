"""A simulated world: the real node, many of them in one process, repeatable from a seed.

`world` has the clock and the order of everything, `loop` is what a program sees of it: an asyncio
event loop for every incarnation of a host. `network` and `transport` are TCP in memory, `links` its
faults, `disk` a disk with a page cache, `clocks` the wall clocks, `host` a machine that is booted,
paused, killed; `guard` refuses the real world meanwhile. `cluster` puts the built-in brokers into
such a world, as they are.
"""
