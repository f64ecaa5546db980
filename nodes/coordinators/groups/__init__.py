"""The group coordinator: groups of consumers, and the offsets that they commit. Pure.

`coordinator` composes the parts: `offsets`, and one folder for each kind of group.
"""
