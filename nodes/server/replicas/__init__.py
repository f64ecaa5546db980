"""The partition replicas that this broker hosts: their logs on the disk, roles and ISRs.

The rules of replication are in `nodes.replication`, the log itself is in `nodes.log`, and requests
are served by `nodes.server.requests`.
"""
