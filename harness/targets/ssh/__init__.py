"""The SSH target: nodes on any machines with Linux and a shell, one machine each.

`inventory` says which machines there are, `connection` reaches them, `install` brings what they
need; an agent (`harness.targets.agent`) does there what `harness.targets.linux` can do, and heals
by itself when it hears nothing any more. `target.SshTarget` joins them.
"""
