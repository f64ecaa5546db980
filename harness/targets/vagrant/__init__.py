"""The Vagrant target: the SSH target on the machines that `vagrant up` made.

It makes the inventory from Vagrant's output, and switches the machines' power by their hypervisor.
Making and removing the machines is left to Vagrant.
"""
