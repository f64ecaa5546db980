"""KRaft: the quorum that elects a controller and replicates the metadata log.

It has elections with pre-votes (KIP-595, KIP-996), snapshots (KIP-630), and voters that are
identified by their directories and may change (KIP-853). Pure: `quorum` decides,
`nodes.server.quorum.quorum_node` does the I/O.
"""
