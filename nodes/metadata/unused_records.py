"""Records of the metadata log that only Apache Kafka writes and uses: access control lists, quotas,
SCRAM users, delegation tokens, and the migration from ZooKeeper.

They are declared as `nodes.record_schemas` says. `nodes.metadata.unused` says what becomes of them.
"""

from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

from kio.static.constants import EntityType
from kio.static.primitive import i16

from nodes.record_schemas import wire


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTokenRecord:
    """A delegation token is issued or renewed (KIP-900). Times are in ms since 1970."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(10)
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    owner: str = field(metadata=wire("string"))
    requester: str = field(metadata=wire("string"))
    renewers: tuple[str, ...] = field(metadata=wire("string"), default=())
    issue_timestamp: int = field(metadata=wire("int64"))
    max_timestamp: int = field(metadata=wire("int64"))
    expiration_timestamp: int = field(metadata=wire("int64"))
    token_id: str = field(metadata=wire("string"))


@dataclass(frozen=True, slots=True, kw_only=True)
class UserScramCredentialRecord:
    """What a user's password is compared with (KIP-900); mechanism 1 is SHA-256, 2 is SHA-512."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(11)
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=wire("string"))
    mechanism: int = field(metadata=wire("int8"))
    salt: bytes = field(metadata=wire("bytes"))
    stored_key: bytes = field(metadata=wire("bytes"))
    server_key: bytes = field(metadata=wire("bytes"))
    iterations: int = field(metadata=wire("int32"))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEntity:
    """A user, client id or address that a quota holds for; without a name, the default of all."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    entity_type: str = field(metadata=wire("string"))
    entity_name: str | None = field(metadata=wire("string"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaRecord:
    """A quota (`key`) of an entity is set or removed (KIP-546)."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(14)
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    entity: tuple[QuotaEntity, ...]
    key: str = field(metadata=wire("string"))
    value: float = field(metadata=wire("float64"))
    remove: bool = field(metadata=wire("bool"), default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessControlEntryRecord:
    """An entry of the access control lists is added (KIP-801)."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(18)
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    id: UUID | None = field(metadata=wire("uuid"))
    resource_type: int = field(metadata=wire("int8"))
    resource_name: str = field(metadata=wire("string"))
    pattern_type: int = field(metadata=wire("int8"))
    principal: str = field(metadata=wire("string"))
    host: str = field(metadata=wire("string"))
    operation: int = field(metadata=wire("int8"))
    permission_type: int = field(metadata=wire("int8"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAccessControlEntryRecord:
    """An entry of the access control lists is removed."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(19)
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    id: UUID | None = field(metadata=wire("uuid"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ZkMigrationStateRecord:
    """How far a migration from ZooKeeper is; without effect since Kafka 4.0."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(21)
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    zk_migration_state: int = field(metadata=wire("int8"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveUserScramCredentialRecord:
    """A user's credential of one mechanism is removed."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(22)
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=wire("string"))
    mechanism: int = field(metadata=wire("int8"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveDelegationTokenRecord:
    """A delegation token is removed."""

    __type__: ClassVar = EntityType.data
    __api_key__: ClassVar[i16] = i16(26)
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    token_id: str = field(metadata=wire("string"))
