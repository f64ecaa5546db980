"""The control plane with ZooKeeper, as in Kafka before KRaft: what is decided and written. Pure.

Znodes and operations on them, the decisions of the old controller, the requests that it sends to
brokers, and what a broker makes of these. `nodes.server.zookeeper` carries it out.
"""
