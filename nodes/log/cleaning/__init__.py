"""Log compaction: keeps at least the last record of each key (Kafka's LogCleaner and Cleaner).

Which log to clean, what to keep and how to write it are decided here; `nodes.server.replicas`
decides when a cleaning may go on.
"""
