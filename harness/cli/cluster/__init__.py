"""`highwater cluster`: starts and ends clusters for any Kafka client, and administers them.

The administrative requests themselves are in `harness.admin`.
"""
