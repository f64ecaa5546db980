"""Groups of the consumer group protocol (KIP-848): the coordinator assigns, members follow. Pure.

`groups` is the entry point, `records` what is remembered, `assignors` who gets which partition.
"""
