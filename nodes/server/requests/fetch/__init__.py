"""Fetch requests: sessions (KIP-227), what one partition answers, and waiting for more records.

The follower that sends such requests is in `nodes.server.follower`.
"""
