"""The cluster metadata: records of the metadata log, the cluster image, snapshots, topic configs.

Which change is allowed is decided by `nodes.controller`; `nodes.server` keeps the log.
"""
