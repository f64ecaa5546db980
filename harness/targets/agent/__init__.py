"""The agent: one process as root on a node's remote machine, which runs the node and makes faults.

It uses `harness.targets.linux` there, serves the harness's calls, and heals the machine when the
harness is silent. How the harness reaches the agent's socket is left to the target (`ssh`).
"""
