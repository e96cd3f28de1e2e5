"""ACLs in the store, as Kafka's AclAuthorizer keeps them: one znode per resource pattern.

    /kafka-acl/<Type>/<name>                      literal patterns
    /kafka-acl-extended/prefixed/<Type>/<name>    prefixed patterns
    /kafka-acl-changes, /kafka-acl-extended-changes    a sequential znode per change

Owner: none; it holds no state but the store.
"""

import json
import logging
from collections.abc import Callable, Iterable
from typing import Final

from embedkafka.security.acl.acls import Acl, PatternType, PermissionType, ResourcePattern
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.store import BadVersion, NodeExists, NoNode
from embedkafka.zk.znodes import children, create_with_parents

_LOG = logging.getLogger(__name__)

CHANGE_PREFIX: Final = "acl_changes_"
LITERAL_CHANGES: Final = "/kafka-acl-changes"
EXTENDED_CHANGES: Final = "/kafka-acl-extended-changes"

_FOLDERS: Final = {
    PatternType.LITERAL: "/kafka-acl",
    PatternType.PREFIXED: "/kafka-acl-extended/prefixed",
}
_TYPES: Final = {
    "".join(map(str.capitalize, kind.name.split("_"))): kind
    for kind in ResourceType
    if kind > ResourceType.ANY
}
_TYPE_NAMES: Final = {kind: name for name, kind in _TYPES.items()}


class AclZnodes:
    """Reads and writes ACLs through one session."""

    def __init__(self, zk: KafkaZk) -> None:
        self._store = zk.store

    def make_paths(self) -> None:
        """Creates the folders that Kafka creates; quick if they exist."""
        for folder in (*_FOLDERS.values(), LITERAL_CHANGES, EXTENDED_CHANGES):
            if self._store.exists(folder) is None:
                create_with_parents(self._store, folder, None, exist_ok=True)

    def load(self) -> dict[ResourcePattern, frozenset[Acl]]:
        """All ACLs."""
        found = {resource: self.read(resource) for resource in self._resources()}
        return {resource: acls for resource, acls in found.items() if acls}

    def read(self, resource: ResourcePattern) -> frozenset[Acl]:
        try:
            return _decode(resource, self._store.get(_path(resource))[0])
        except NoNode:
            return frozenset()

    def update(
        self, resource: ResourcePattern, change: Callable[[frozenset[Acl]], frozenset[Acl]]
    ) -> frozenset[Acl]:
        """Applies `change` to the ACLs of a resource, and announces it if there is any.

        Starts again if another broker has changed them in between. Returns them as they are now.
        """
        while True:
            try:
                data, stat = self._store.get(_path(resource))
            except NoNode:
                before, version = frozenset[Acl](), None
            else:
                before, version = _decode(resource, data), stat.version
            after = change(before)
            if after == before:
                return after
            try:
                self._write(resource, after, version)
            except (BadVersion, NodeExists, NoNode):
                continue
            self._announce(resource)
            return after

    def _write(self, resource: ResourcePattern, acls: frozenset[Acl], version: int | None) -> None:
        path = _path(resource)
        if version is None:
            create_with_parents(self._store, path, _encode(acls))
        elif acls:
            self._store.set(path, _encode(acls), version)
        else:
            self._store.delete(path, version)

    def _announce(self, resource: ResourcePattern) -> None:
        literal = resource.pattern_type is PatternType.LITERAL
        folder = LITERAL_CHANGES if literal else EXTENDED_CHANGES
        data = _encode_change(resource)
        self._store.create(f"{folder}/{CHANGE_PREFIX}", data, sequence=True)

    def _resources(self) -> Iterable[ResourcePattern]:
        for pattern_type, folder in _FOLDERS.items():
            for type_name in children(self._store, folder):
                if type_name not in _TYPES:
                    _LOG.warning("ignoring ACLs of the unknown resource type %s", type_name)
                    continue
                for name in children(self._store, f"{folder}/{type_name}"):
                    yield ResourcePattern(_TYPES[type_name], name, pattern_type)


def decode_change(data: bytes) -> ResourcePattern:
    """The resource that a change notification is about."""
    text = data.decode()
    if not text.startswith("{"):
        type_name, _, name = text.partition(":")
        return ResourcePattern(ResourceType[type_name], name, PatternType.LITERAL)
    js = json.loads(text)
    return ResourcePattern(
        ResourceType[js["resourceType"]], js["name"], PatternType[js["patternType"]]
    )


def _encode_change(resource: ResourcePattern) -> bytes:
    if resource.pattern_type is PatternType.LITERAL:
        return f"{resource.resource_type.name}:{resource.name}".encode()
    return _dump(
        {
            "version": 1,
            "resourceType": resource.resource_type.name,
            "name": resource.name,
            "patternType": resource.pattern_type.name,
        }
    )


def _path(resource: ResourcePattern) -> str:
    folder = _FOLDERS[resource.pattern_type]
    return f"{folder}/{_TYPE_NAMES[resource.resource_type]}/{resource.name}"


def _encode(acls: Iterable[Acl]) -> bytes:
    """Kafka encodes hash maps; the keys are in the order of their hashes."""
    entries = [
        {
            "principal": acl.principal,
            "permissionType": acl.permission.name.capitalize(),
            "host": acl.host,
            "operation": "".join(map(str.capitalize, acl.operation.name.split("_"))),
        }
        for acl in sorted(acls, key=str)
    ]
    return _dump({"acls": entries, "version": 1})


_OPERATIONS: Final = {operation.name.replace("_", ""): operation for operation in AclOperation}


def _decode(resource: ResourcePattern, data: bytes) -> frozenset[Acl]:
    if not data:
        return frozenset()
    return frozenset(
        Acl(
            principal=entry["principal"],
            operation=_OPERATIONS[entry["operation"].upper()],
            resource=resource,
            permission=PermissionType[entry["permissionType"].upper()],
            host=entry["host"],
        )
        for entry in json.loads(data)["acls"]
    )


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
