"""Carrying out a plan: preparing it, running its phases, showing progress, ending the cluster.

Machines, brokers, clients, faults and judging are left to the other packages of the harness.
"""
