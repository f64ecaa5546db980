"""Requests about transactions (KIP-664): list, describe, find hanging ones, abort.

descriptions    the answers as plain values                            (pure)
requests        ListTransactions, DescribeTransactions, WriteTxnMarkers, InitProducerId
hanging         which open transactions no coordinator will end
text            the output of kafka-transactions                       (pure)
"""
