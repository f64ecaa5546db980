"""Requests about groups: list, describe, delete; their committed offsets: read, reset, delete.

The coordinators are found by `harness.admin.coordinators`.

    descriptions    the answers as plain values                            (pure)
    requests        ListGroups, ConsumerGroupDescribe, DescribeGroups, DeleteGroups
    offsets         OffsetFetch, OffsetCommit, OffsetDelete
    resets          which offsets a reset commits                          (pure)
    text            the output of kafka-consumer-groups                    (pure)
"""
