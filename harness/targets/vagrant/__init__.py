"""The Vagrant target: the SSH target on the machines that `vagrant up` made. See docs/vagrant.md.

`told` reads what Vagrant says of its machines, `machines` asks it and them, `kind` is what plans
name. `box.sh` builds a box.
"""
