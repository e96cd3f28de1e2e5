"""Reads Java class files: the class that a file defines, and the classes and members it refers to.

The constant pool and the lists of fields and methods say all of it, so code is never decoded.
Names have the JVM's form, `org/apache/spark/SparkConf`.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

_MAGIC: Final = 0xCAFEBABE
_VERSION_BYTES: Final = 4
_FLAGS_BYTES: Final = 2

_TEXT: Final = 1
_CLASS: Final = 7
_USED_MEMBER: Final = frozenset({9, 10, 11})  # of a field, a method, an interface's method
_NAME_AND_TYPE: Final = 12
_TWO_SLOTS: Final = frozenset({5, 6})  # long, double

#: The size of the constants that are skipped, by tag.
_SKIPPED: Final[Mapping[int, int]] = {
    3: 4, 4: 4, 5: 8, 6: 8, 8: 2, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2,
}  # fmt: skip

_U1: Final = struct.Struct(">B")
_U2: Final = struct.Struct(">H")
_U4: Final = struct.Struct(">I")


class BadClassFile(ValueError):
    """These bytes are not a class file."""


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """A field or a method; the descriptor is its type, and only a method's has parentheses."""

    name: str
    descriptor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassFile:
    """One class: its ancestors, its members, and its references to others."""

    name: str
    #: The superclass, then the interfaces.
    parents: tuple[str, ...]
    members: frozenset[Member]
    used_classes: frozenset[str]
    #: With the class that the code names, which may only inherit the member.
    used_members: frozenset[tuple[str, Member]]


def read_class_file(content: bytes) -> ClassFile:
    """The class in `content`; raises `BadClassFile`."""
    try:
        return _read(_Reader(content))
    except (struct.error, KeyError) as error:
        raise BadClassFile(f"damaged: {type(error).__name__}: {error}") from error


def _read(reader: "_Reader") -> ClassFile:
    if reader.number(_U4) != _MAGIC:
        raise BadClassFile("not a class file")
    reader.skip(_VERSION_BYTES)
    constants = _read_constants(reader)
    reader.skip(_FLAGS_BYTES)
    name, superclass = reader.number(_U2), reader.number(_U2)
    interfaces = [reader.number(_U2) for _ in range(reader.number(_U2))]
    parents = [superclass, *interfaces] if superclass else interfaces  # Object has none
    fields, methods = _read_members(reader, constants), _read_members(reader, constants)
    return ClassFile(
        name=constants.class_name(name),
        parents=tuple(constants.class_name(parent) for parent in parents),
        members=frozenset([*fields, *methods]),
        used_classes=frozenset(constants.used_classes()),
        used_members=frozenset(constants.used_members()),
    )


class _Reader:
    """The bytes and a position in them."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def number(self, layout: struct.Struct) -> int:
        value: int = layout.unpack_from(self._content, self._position)[0]
        self._position += layout.size
        return value

    def text(self) -> str:
        size = self.number(_U2)
        start = self._position
        self.skip(size)
        # Java encodes NUL and surrogates differently. They occur in strings, not in names.
        return self._content[start : self._position].decode("utf-8", errors="replace")

    def skip(self, size: int) -> None:
        self._position += size
        if self._position > len(self._content):
            raise BadClassFile("damaged: it ends too early")


@dataclass(frozen=True, slots=True)
class _Constants:
    """The constant pool: each table goes from a constant's index to its text or its parts."""

    texts: dict[int, str] = field(default_factory=dict)
    classes: dict[int, int] = field(default_factory=dict)
    names_and_types: dict[int, tuple[int, int]] = field(default_factory=dict)
    members: list[tuple[int, int]] = field(default_factory=list)

    def class_name(self, index: int) -> str:
        return self.texts[self.classes[index]]

    def used_classes(self) -> Iterator[str]:
        for text in self.classes.values():
            if element := _element_class(self.texts[text]):
                yield element

    def used_members(self) -> Iterator[tuple[str, Member]]:
        for owner, name_and_type in self.members:
            name, descriptor = self.names_and_types[name_and_type]
            owner_name = self.class_name(owner)
            if not owner_name.startswith("["):  # an array has only what Object has
                yield owner_name, Member(self.texts[name], self.texts[descriptor])


def _read_constants(reader: _Reader) -> _Constants:
    constants = _Constants()
    count = reader.number(_U2)
    index = 1
    while index < count:
        tag = reader.number(_U1)
        if tag == _TEXT:
            constants.texts[index] = reader.text()
        elif tag == _CLASS:
            constants.classes[index] = reader.number(_U2)
        elif tag == _NAME_AND_TYPE:
            constants.names_and_types[index] = (reader.number(_U2), reader.number(_U2))
        elif tag in _USED_MEMBER:
            constants.members.append((reader.number(_U2), reader.number(_U2)))
        else:
            reader.skip(_SKIPPED[tag])
        index += 2 if tag in _TWO_SLOTS else 1
    return constants


def _read_members(reader: _Reader, constants: _Constants) -> list[Member]:
    members = []
    for _ in range(reader.number(_U2)):
        reader.skip(_FLAGS_BYTES)
        name, descriptor = reader.number(_U2), reader.number(_U2)
        members.append(Member(constants.texts[name], constants.texts[descriptor]))
        for _ in range(reader.number(_U2)):
            reader.skip(_U2.size)  # the attribute's name
            reader.skip(reader.number(_U4))
    return members


def _element_class(name: str) -> str | None:
    """The class itself, or that of an array's elements; None for an array of primitives."""
    if not name.startswith("["):
        return name
    element = name.lstrip("[")
    return element[1:-1] if element.startswith("L") else None
