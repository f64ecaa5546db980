"""KRaft: the quorum that elects a controller and replicates the metadata log (KIP-595, KIP-996).

Pure: `quorum` decides, `nodes.server.raft_io` does. Voters are static (controller.quorum.voters);
changing them at run time (KIP-853) is left out.
"""
