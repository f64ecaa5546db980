"""A Kafka client of our own on asyncio: no threads, no clocks and no chance but those handed in.

On any event loop, a simulated one too, the same seed and the same answers make the same requests.
`line` and `fates` decide what a producer sends when and what became of it, `leaders` who leads,
`records` reads and writes batches: all pure. `link`, `cluster`, `producer` and `consumer` do the
I/O; `recording` writes what happens into the history.
"""
