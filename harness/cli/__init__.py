"""The commands of `highwater`: their options, help texts, messages and exit codes.

The work itself is done by the other packages of the harness.
"""
