"""The declarations and references in a class file."""

import pytest

from embedkafka.spark.connector.class_files import BadClassFile, Member, read_class_file
from tests.doubles.class_files import JavaClass

SOURCE = JavaClass(
    name="a/Source",
    superclass="a/Base",
    interfaces=["a/Closes", "a/Runs"],
    fields=[("count", "I")],
    methods=[("<init>", "()V"), ("run", "()V")],
    used_classes=["a/Table", "[[La/Cell;", "[I"],
    used_fields=[("a/Table$", "MODULE$", "La/Table$;")],
    used_methods=[("a/Table", "rows", "(I)J"), ("[La/Row;", "clone", "()Ljava/lang/Object;")],
    longs=[1, 2**40],
)


def test_a_class_is_read_with_its_parents_and_members() -> None:
    read = read_class_file(SOURCE.content())
    assert read.name == "a/Source"
    assert read.parents == ("a/Base", "a/Closes", "a/Runs")
    assert read.members == {Member("count", "I"), Member("<init>", "()V"), Member("run", "()V")}


def test_references_are_read_and_arrays_count_as_their_elements() -> None:
    read = read_class_file(SOURCE.content())
    others = {"a/Table", "a/Table$", "a/Cell", "a/Row"}
    assert read.used_classes == others | {"a/Source", *read.parents}
    assert read.used_members == {
        ("a/Table$", Member("MODULE$", "La/Table$;")),
        ("a/Table", Member("rows", "(I)J")),
    }


@pytest.mark.parametrize(
    "content",
    [b"", b"PK\x03\x04 and more", SOURCE.content()[:40], SOURCE.content()[:-4]],
    ids=["empty", "a zip", "cut in the constants", "cut in the members"],
)
def test_other_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(BadClassFile):
        read_class_file(content)
