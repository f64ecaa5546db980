"""Traces of simulated runs, checked by TLC against TLA+ specifications.

The invariants say what may never be; a specification also says how each state may follow from the
one before. A trace (`quorum_trace`, `replication_trace`) shows a node after each event that changed
it. The modules in `specifications/` describe the protocol; `tlc` asks the model checker whether the
trace is one of its behaviours ("Validating Traces of Distributed Programs Against TLA+
Specifications", Cirstea, Kuppe, Loillier and Merz, 2024).
"""
