"""Rewritten decisions: the broker's pure functions, with probes or with one operator changed.

`catalogue` says which modules decide, `rewriting` puts new code into their functions and takes it
out again, `probes` notes what a run reached, `reached` tells what no run reached.
"""
