"""Classic groups: members join, a leader among them assigns, and the coordinator hands it out.

`records` is what is remembered, `group` and `members` the state of one group, `groups` the machine.
The other modules are its operations. Their behaviour is that of Kafka's GroupMetadataManager.
"""
