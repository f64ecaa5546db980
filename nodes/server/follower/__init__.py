"""The follower's side of replication: fetches from leaders and appends to the local logs.

The leader's side is in `nodes.server.requests.fetch`; when to truncate is decided in
`nodes.log.divergence`.
"""
