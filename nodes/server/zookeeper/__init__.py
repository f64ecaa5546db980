"""ZooKeeper as the control plane of a broker: its session and registration, the old controller.

`nodes.zookeeper` has the decisions. Nothing below this package knows of it.
"""
