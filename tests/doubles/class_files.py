"""Writes minimal Java class files, and jars of them."""

import struct
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

#: The name and the descriptor of a field or a method.
NamedType = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class JavaClass:
    """A class to write. Its methods have no code."""

    name: str
    superclass: str = "java/lang/Object"
    interfaces: Sequence[str] = ()
    fields: Sequence[NamedType] = ()
    methods: Sequence[NamedType] = ()
    used_classes: Sequence[str] = ()
    #: Owner, name and descriptor.
    used_fields: Sequence[tuple[str, *NamedType]] = ()
    used_methods: Sequence[tuple[str, *NamedType]] = ()
    #: Long constants take two slots of the pool, which a careless reader miscounts.
    longs: Sequence[int] = ()

    def content(self) -> bytes:
        pool = _Pool()
        for number in self.longs:
            pool.add(struct.pack(">Bq", 5, number), slots=2)
        for used in self.used_classes:
            pool.class_index(used)
        for tag, uses in ((9, self.used_fields), (10, self.used_methods)):
            for owner, name, descriptor in uses:
                pool.member_index(tag, owner, name, descriptor)
        parts = [
            struct.pack(">HH", pool.class_index(self.name), pool.class_index(self.superclass)),
            _counted(struct.pack(">H", pool.class_index(name)) for name in self.interfaces),
            _counted(pool.declared(*field) for field in self.fields),
            _counted(pool.declared(*method) for method in self.methods),
            _counted(()),
        ]
        head = struct.pack(">IHH", 0xCAFEBABE, 0, 61)
        return head + pool.content() + struct.pack(">H", 0x21) + b"".join(parts)


def write_jar(path: Path, classes: Iterable[JavaClass]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "")
        for each in classes:
            jar.writestr(f"{each.name}.class", each.content())
    return path


class _Pool:
    """The constant pool. It holds each constant once."""

    def __init__(self) -> None:
        self._indexes: dict[bytes, int] = {}
        self._count = 1

    def add(self, constant: bytes, *, slots: int = 1) -> int:
        if constant not in self._indexes:
            self._indexes[constant] = self._count
            self._count += slots
        return self._indexes[constant]

    def text_index(self, text: str) -> int:
        return self.add(struct.pack(">BH", 1, len(text.encode())) + text.encode())

    def class_index(self, name: str) -> int:
        return self.add(struct.pack(">BH", 7, self.text_index(name)))

    def member_index(self, tag: int, owner: str, name: str, descriptor: str) -> int:
        named = struct.pack(">BHH", 12, self.text_index(name), self.text_index(descriptor))
        return self.add(struct.pack(">BHH", tag, self.class_index(owner), self.add(named)))

    def declared(self, name: str, descriptor: str) -> bytes:
        """A field or method with one attribute, which a reader must skip."""
        attribute = struct.pack(">HI", self.text_index("Synthetic"), 3) + b"\x01\x02\x03"
        indexes = (self.text_index(name), self.text_index(descriptor))
        return struct.pack(">HHH", 1, *indexes) + _counted([attribute])

    def content(self) -> bytes:
        return struct.pack(">H", self._count) + b"".join(self._indexes)


def _counted(parts: Iterable[bytes]) -> bytes:
    listed = list(parts)
    return struct.pack(">H", len(listed)) + b"".join(listed)
