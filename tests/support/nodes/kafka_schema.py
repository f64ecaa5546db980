"""A second reader of metadata records, from Kafka's schema alone: no kio, no records module.

Each line is one type: name, api key, version, and its fields in order with their types; `?` may be
null, `@n` is tagged n. Arrays and strings are compact, as flexible versions have them.
"""

import struct
from typing import Any, NamedTuple
from uuid import UUID

SCHEMA = """
RegisterBrokerRecord 0 3 BrokerId:int32 IsMigratingZkBroker:bool IncarnationId:uuid\
 BrokerEpoch:int64 EndPoints:[](Name:string Host:string Port:uint16 SecurityProtocol:int16)\
 Features:[](Name:string MinSupportedVersion:int16 MaxSupportedVersion:int16) Rack:string?\
 Fenced:bool InControlledShutdown:bool LogDirs:[]uuid@0
UnregisterBrokerRecord 1 0 BrokerId:int32 BrokerEpoch:int64
TopicRecord 2 0 Name:string TopicId:uuid
PartitionRecord 3 2 PartitionId:int32 TopicId:uuid Replicas:[]int32 Isr:[]int32\
 RemovingReplicas:[]int32 AddingReplicas:[]int32 Leader:int32 LeaderRecoveryState:int8@0\
 LeaderEpoch:int32 PartitionEpoch:int32 Directories:[]uuid EligibleLeaderReplicas:[]int32?@1\
 LastKnownElr:[]int32?@2
ConfigRecord 4 0 ResourceType:int8 ResourceName:string Name:string Value:string?
PartitionChangeRecord 5 2 PartitionId:int32 TopicId:uuid Isr:[]int32?@0 Leader:int32@1\
 Replicas:[]int32?@2 RemovingReplicas:[]int32?@3 AddingReplicas:[]int32?@4\
 LeaderRecoveryState:int8@5 EligibleLeaderReplicas:[]int32?@6 LastKnownElr:[]int32?@7\
 Directories:[]uuid?@8
FenceBrokerRecord 7 0 Id:int32 Epoch:int64
UnfenceBrokerRecord 8 0 Id:int32 Epoch:int64
RemoveTopicRecord 9 0 TopicId:uuid
DelegationTokenRecord 10 0 Owner:string Requester:string Renewers:[]string IssueTimestamp:int64\
 MaxTimestamp:int64 ExpirationTimestamp:int64 TokenId:string
UserScramCredentialRecord 11 0 Name:string Mechanism:int8 Salt:bytes StoredKey:bytes\
 ServerKey:bytes Iterations:int32
FeatureLevelRecord 12 0 Name:string FeatureLevel:int16
ClientQuotaRecord 14 0 Entity:[](EntityType:string EntityName:string?) Key:string Value:float64\
 Remove:bool
ProducerIdsRecord 15 0 BrokerId:int32 BrokerEpoch:int64 NextProducerId:int64
BrokerRegistrationChangeRecord 17 2 BrokerId:int32 BrokerEpoch:int64 Fenced:int8@0\
 InControlledShutdown:int8@1 LogDirs:[]uuid@2
AccessControlEntryRecord 18 0 Id:uuid ResourceType:int8 ResourceName:string PatternType:int8\
 Principal:string Host:string Operation:int8 PermissionType:int8
RemoveAccessControlEntryRecord 19 0 Id:uuid
NoOpRecord 20 0
ZkMigrationStateRecord 21 0 ZkMigrationState:int8
RemoveUserScramCredentialRecord 22 0 Name:string Mechanism:int8
BeginTransactionRecord 23 0 Name:string?@0
EndTransactionRecord 24 0
AbortTransactionRecord 25 0 Reason:string?@0
RemoveDelegationTokenRecord 26 0 TokenId:string
RegisterControllerRecord 27 0 ControllerId:int32 IncarnationId:uuid ZkMigrationReady:bool\
 EndPoints:[](Name:string Host:string Port:uint16 SecurityProtocol:int16)\
 Features:[](Name:string MinSupportedVersion:int16 MaxSupportedVersion:int16)
ClearElrRecord 28 0 TopicName:string
"""

_NUMBERS = {
    "int8": ">b",
    "int16": ">h",
    "int32": ">i",
    "int64": ">q",
    "uint16": ">H",
    "bool": ">?",
    "float64": ">d",
}


class _Field(NamedTuple):
    name: str
    type: str
    tag: int | None


def _split(text: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for letter in text + " ":
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == " " and depth == 0:
            parts += [current] if current else []
            current = ""
        else:
            current += letter
    return parts


def _fields(text: str) -> list[_Field]:
    fields = []
    for item in _split(text):
        name, _, rest = item.partition(":")
        body, at, tag = (rest, "", "") if rest.endswith(")") else rest.partition("@")
        fields.append(_Field(name, body.rstrip("?"), int(tag) if at else None))
    return fields


_TYPES = {
    (int(key), int(version)): (name, _fields(rest[0] if rest else ""))
    for name, key, version, *rest in (line.split(" ", 3) for line in SCHEMA.strip().splitlines())
}


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        taken = self.data[self.at : self.at + count]
        assert len(taken) == count
        self.at += count
        return taken

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value


def _value(source: _Bytes, type_: str) -> Any:
    if type_ in _NUMBERS:
        size = struct.calcsize(_NUMBERS[type_])
        return struct.unpack(_NUMBERS[type_], source.take(size))[0]
    if type_ == "uuid":
        number = int.from_bytes(source.take(16), "big")
        return UUID(int=number) if number else None
    length = source.uvarint() - 1
    if length < 0:
        return None
    if type_ in ("string", "bytes"):
        return source.take(length).decode() if type_ == "string" else source.take(length)
    item = type_.removeprefix("[]")
    if item.startswith("("):
        return [_struct(source, _fields(item[1:-1])) for _ in range(length)]
    return [_value(source, item) for _ in range(length)]


def _struct(source: _Bytes, fields: list[_Field]) -> dict[str, Any]:
    found = {f.name: _value(source, f.type) for f in fields if f.tag is None}
    tagged = {f.tag: f for f in fields if f.tag is not None}
    last = -1
    for _ in range(source.uvarint()):
        tag, size = source.uvarint(), source.uvarint()
        assert tag > last
        last, end = tag, source.at + size
        found[tagged[tag].name] = _value(source, tagged[tag].type)
        assert source.at == end
    return found


def read(value: bytes) -> tuple[str, dict[str, Any]]:
    """The type's name and the fields that are there, by Kafka's names."""
    source = _Bytes(value)
    assert source.uvarint() == 1
    key, version = source.uvarint(), source.uvarint()
    name, fields = _TYPES[key, version]
    found = _struct(source, fields)
    assert source.at == len(value)
    return name, found
