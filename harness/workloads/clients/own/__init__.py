"""A Kafka client of our own on asyncio. It has no threads, and gets clocks and randomness as
arguments, so that the same seed and the same answers give the same requests on any event loop.

`partition_queue`, `produce_errors`, `zombies`, `leaders` and `records` are pure: the order of sends
and their results, batches of ended epochs, the leaders, and record batches. `connection`,
`cluster`, `producer` and `consumer` do the I/O. `recording` writes the history.
"""
