"""The ZooKeeper servers of a cluster whose control plane is ZooKeeper.

They are started, asked for their state, and their logs are read as the history of the znodes.
"""
