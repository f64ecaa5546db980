"""The SSH target: every node runs on its own Linux machine, which the harness reaches by SSH.

`inventory` lists the machines, `connection` connects, `install` copies software. Nodes and faults
there are left to an agent (`harness.targets.agent`); `target.SshTarget` joins these parts.
"""
