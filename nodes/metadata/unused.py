"""What this broker does not use of Kafka's metadata: access control lists, quotas, SCRAM users and
delegation tokens. Pure.

A directory has them if Apache Kafka wrote them. This broker has no authorizer and no quotas, and
its users are in its properties. Kafka without `authorizer.class.name` ignores access control lists,
too. But Kafka may open the directory again. So the newest record of each thing is kept in the
cluster image, and written into snapshots.
"""

from collections.abc import Mapping
from typing import NamedTuple, assert_never
from uuid import UUID

from nodes.metadata.unused_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    QuotaEntity,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

UnusedRecord = (
    DelegationTokenRecord | UserScramCredentialRecord | ClientQuotaRecord | AccessControlEntryRecord
)
Removal = (
    RemoveDelegationTokenRecord | RemoveUserScramCredentialRecord | RemoveAccessControlEntryRecord
)


class UnusedKey(NamedTuple):
    """The thing that a record describes: its kind, and its identity within the kind."""

    kind: type[UnusedRecord]
    identity: str | UUID | tuple[str, int] | tuple[tuple[QuotaEntity, ...], str] | None


def keep(
    kept: Mapping[UnusedKey, UnusedRecord], record: UnusedRecord | Removal
) -> Mapping[UnusedKey, UnusedRecord]:
    """The kept records after `record`. The removal of what is not there changes nothing."""
    match record:
        case DelegationTokenRecord():
            return {**kept, UnusedKey(type(record), record.token_id): record}
        case UserScramCredentialRecord():
            return {**kept, UnusedKey(type(record), (record.name, record.mechanism)): record}
        case AccessControlEntryRecord():
            return {**kept, UnusedKey(type(record), record.id): record}
        case ClientQuotaRecord():
            key = UnusedKey(type(record), (record.entity, record.key))
            return _without(kept, key) if record.remove else {**kept, key: record}
        case RemoveDelegationTokenRecord():
            return _without(kept, UnusedKey(DelegationTokenRecord, record.token_id))
        case RemoveUserScramCredentialRecord():
            who = (record.name, record.mechanism)
            return _without(kept, UnusedKey(UserScramCredentialRecord, who))
        case RemoveAccessControlEntryRecord():
            return _without(kept, UnusedKey(AccessControlEntryRecord, record.id))
        case _:
            assert_never(record)


def _without(
    kept: Mapping[UnusedKey, UnusedRecord], key: UnusedKey
) -> Mapping[UnusedKey, UnusedRecord]:
    return {each: record for each, record in kept.items() if each != key}
