"""The clients of a benchmark: raw sockets and librdkafka, each in a process of its own.

What they measure, and on which system, is decided by `harness.bench.measurement`.

    frames      the requests of the raw clients, encoded once   (pure)
    loops       the raw clients: plain sockets, almost nothing is decoded
    librdkafka  the same measurements through librdkafka
    worker      the process of one client
    workers     starts, reads and ends these processes
    probe       an asyncio client that shows gaps in acknowledgements
"""
