"""Declared classes: construction, defaults, equality, immutability."""

from collections.abc import Sequence

import pytest

from embedkafka.wire.protocol.codec import ProtocolError, decode, encode
from embedkafka.wire.protocol.message import (
    message,
    replace,
    schema_of,
    since,
    struct,
    tagged,
    until,
)
from embedkafka.wire.protocol.messages.configs import AlterConfigsRequest
from embedkafka.wire.protocol.messages.core import MetadataResponse, ProduceResponse
from embedkafka.wire.protocol.messages.groups import HeartbeatRequest, OffsetCommitRequest
from embedkafka.wire.protocol.messages.security import SaslAuthenticateRequest
from embedkafka.wire.protocol.wire_types import ZERO_UUID, Int16, Int32


@message(versions=(0, 3), flexible=2)
class Sample:
    @struct
    class Item:
        name: str
        size: Int32 = since(1, default=-1)

    old: Int16 = until(1, default=7)
    items: Sequence[Item]
    extra: Int32 = tagged(0, since=2, default=5)
    brief: str = since(1, until=2, default="none")


def test_fields_are_keyword_only_and_required_unless_they_have_a_default() -> None:
    with pytest.raises(TypeError, match="items"):
        Sample()  # type: ignore[call-arg]  # the point
    with pytest.raises(TypeError):
        Sample([])  # type: ignore[call-arg,arg-type]  # the point
    with pytest.raises(TypeError, match="unknown"):
        Sample(items=[], unknown=1)  # type: ignore[call-arg]  # the point
    assert Sample(items=[]).extra == 5


def test_absent_fields_are_not_written_and_come_back_as_their_defaults() -> None:
    sent = Sample(old=1, items=[Sample.Item(name="a", size=9)], extra=6, brief="b")
    assert decode(Sample, 0, encode(sent, 0)) == Sample(old=1, items=[Sample.Item(name="a")])
    assert decode(Sample, 1, encode(sent, 1)) == replace(sent, extra=5)
    assert decode(Sample, 2, encode(sent, 2)) == replace(sent, old=7)
    assert decode(Sample, 3, encode(sent, 3)) == replace(sent, old=7, brief="none")


def test_versions_outside_the_declared_ones_are_refused() -> None:
    with pytest.raises(ProtocolError, match="Sample has versions 0 to 3, not 4"):
        encode(Sample(items=[]), 4)
    with pytest.raises(ProtocolError, match="not -1"):
        decode(Sample, -1, b"")


def test_messages_are_frozen_constructed_or_decoded() -> None:
    made = Sample(items=[])
    for frozen in (made, decode(Sample, 0, encode(made, 0))):
        with pytest.raises(AttributeError, match=r"Sample.extra cannot be changed"):
            frozen.extra = 1  # type: ignore[misc]  # the point
        with pytest.raises(AttributeError):
            del frozen.extra
        with pytest.raises(AttributeError):
            frozen.other = 1  # type: ignore[attr-defined]  # the point


def test_messages_compare_by_value_and_lists_equal_tuples() -> None:
    item = Sample.Item(name="a")
    assert Sample(items=(item,)) == Sample(items=[Sample.Item(name="a", size=-1)])
    assert Sample(items=[]) != Sample(items=[item])
    others: list[object] = [Sample(items=[]), "a"]
    assert all(item != other for other in others)


def test_repr_hides_what_logs_someone_in() -> None:
    token = SaslAuthenticateRequest(auth_bytes=b"s3cret")
    assert repr(token) == "SaslAuthenticateRequest(auth_bytes=(hidden))"
    setting = AlterConfigsRequest.Resource.Config
    for name in ("sasl.jaas.config", "ssl.key.password", "listener.name.x.ssl.keystore.key"):
        assert "s3cret" not in repr(setting(name=name, value="s3cret"))
    assert "value='3'" in repr(setting(name="num.partitions", value="3"))


def test_repr_shows_what_differs_from_the_defaults() -> None:
    assert repr(Sample.Item(name="a")) == "Sample.Item(name='a')"
    assert repr(Sample(items=[], extra=6)) == "Sample(items=[], extra=6)"


def test_replace_copies_with_changes() -> None:
    first = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    second = replace(first, generation_id=2)
    assert (second.generation_id, second.group_id) == (2, "g")
    assert first.generation_id == 1


def test_classes_keep_their_names_and_docstrings() -> None:
    assert MetadataResponse.Topic.Partition.__qualname__ == "MetadataResponse.Topic.Partition"
    assert MetadataResponse.__doc__ is not None
    assert MetadataResponse.__doc__.startswith("Brokers, controller")


def test_instances_have_no_dictionary() -> None:
    assert not hasattr(Sample(items=[]), "__dict__")


def test_defaults_are_those_kafka_gives() -> None:
    topic = MetadataResponse.Topic(name="t", partitions=[])
    assert (topic.topic_id, topic.topic_authorized_operations) == (ZERO_UUID, -(2**31))
    partition = ProduceResponse.Topic.Partition(index=0, base_offset=-1)
    assert (partition.error_code, partition.log_append_time_ms) == (0, -1)
    assert OffsetCommitRequest(group_id="g", topics=[]).generation_id_or_member_epoch == -1


def test_a_class_that_is_no_message_is_refused() -> None:
    with pytest.raises(TypeError, match="int is not a message"):
        schema_of(int)
    with pytest.raises(ProtocolError, match="int is not a message"):
        encode(1, 0)


def test_annotations_that_are_no_wire_type_are_refused_when_a_message_is_first_used() -> None:
    @struct
    class WithPlainInt:
        number: int

    @struct
    class WithUnion:
        either: str | bytes

    for wrong in (WithPlainInt, WithUnion):
        with pytest.raises(TypeError, match="not a wire type"):
            schema_of(wrong)
