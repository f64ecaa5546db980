"""The replication of a partition: roles, in-sync replicas and the high watermark, without I/O.

Files, sockets and clocks are the business of `nodes.server`; the metadata comes from
`nodes.metadata`.
"""
