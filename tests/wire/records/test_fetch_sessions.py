"""Fetch sessions (KIP-227): after the first fetch, only changes travel in either direction."""

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.core import FetchRequest
from tests.wire.clients import Cluster, create_topic
from tests.wire.one_partition import batch, describe, produce, values_of
from tests.wire.raw_client import RawClient

Unique = Callable[[str], str]
BY_NAME = 12
BY_ID = 13


class Session:
    """A fetch session of one topic, driven request by request."""

    def __init__(self, raw: RawClient, topic: str) -> None:
        self._raw = raw
        self.topic = topic
        self.topic_id: uuid.UUID = describe(raw, topic).topic_id
        self.id = 0

    def fetch(
        self,
        epoch: int,
        offsets: dict[int, int] | None = None,
        *,
        forget: Sequence[int] = (),
        version: int = BY_ID,
    ) -> Any:
        """Sends one request in the session and returns the whole response."""
        partitions = [
            FetchRequest.Topic.Partition(partition=p, fetch_offset=o, partition_max_bytes=1 << 20)
            for p, o in (offsets or {}).items()
        ]
        wanted = FetchRequest.Topic(topic=self.topic, topic_id=self.topic_id, partitions=partitions)
        forgotten = FetchRequest.ForgottenTopic(
            topic=self.topic, topic_id=self.topic_id, partitions=forget
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            session_id=self.id,
            session_epoch=epoch,
            topics=[wanted] if partitions else [],
            forgotten_topics_data=[forgotten] if forget else [],
        )
        return self._raw.call(request, version)

    def open(self, offsets: dict[int, int], *, version: int = BY_ID) -> Any:
        response = self.fetch(0, offsets, version=version)
        assert response.error_code == ErrorCode.NONE
        self.id = response.session_id
        assert self.id != 0
        return response


def partitions_in(response: Any) -> dict[int, Any]:
    assert response.error_code == ErrorCode.NONE
    return {p.partition_index: p for topic in response.responses for p in topic.partitions}


@pytest.fixture
def session(cluster: Cluster, raw: RawClient, unique: Unique) -> Session:
    return Session(raw, create_topic(cluster, unique("session"), partitions=3))


def test_a_first_fetch_answers_for_all_partitions_and_opens_a_session(session: Session) -> None:
    response = session.open({0: 0, 1: 0, 2: 0})
    assert set(partitions_in(response)) == {0, 1, 2}


def test_without_news_an_incremental_answer_is_empty(session: Session) -> None:
    session.open({0: 0, 1: 0, 2: 0})
    response = session.fetch(1)
    assert partitions_in(response) == {}
    assert response.session_id == session.id


def test_only_partitions_with_news_are_in_an_incremental_answer(
    raw: RawClient, session: Session
) -> None:
    session.open({0: 0, 1: 0, 2: 0})
    produce(raw, session.topic, batch(b"a"), partition=1)
    answer = partitions_in(session.fetch(1))
    assert set(answer) == {1}
    assert values_of(answer[1]) == [b"a"]


def test_records_come_again_until_the_client_moves_its_offset(
    raw: RawClient, session: Session
) -> None:
    session.open({0: 0, 1: 0})
    produce(raw, session.topic, batch(b"a"), partition=0)
    assert set(partitions_in(session.fetch(1))) == {0}
    assert set(partitions_in(session.fetch(2))) == {0}
    assert partitions_in(session.fetch(3, {0: 1})) == {}


def test_partitions_join_and_leave_a_session(raw: RawClient, session: Session) -> None:
    session.open({0: 0})
    assert set(partitions_in(session.fetch(1, {1: 0}))) == {1}
    for partition in (0, 1):
        produce(raw, session.topic, batch(b"a"), partition=partition)
    assert set(partitions_in(session.fetch(2, forget=[0]))) == {1}


def test_an_unexpected_epoch_is_refused(session: Session) -> None:
    session.open({0: 0})
    assert session.fetch(5).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert session.fetch(1).error_code == ErrorCode.NONE


def test_an_unknown_session_is_refused(session: Session) -> None:
    session.id = 123_456_789
    assert session.fetch(1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_final_fetch_closes_the_session(session: Session) -> None:
    session.open({0: 0})
    closing = session.fetch(-1, {0: 0})
    assert (closing.error_code, closing.session_id) == (ErrorCode.NONE, 0)
    assert session.fetch(1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_new_full_fetch_replaces_the_session(session: Session) -> None:
    session.open({0: 0})
    old = session.id
    session.open({0: 0})
    assert session.id != old
    session.id = old
    assert session.fetch(1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_fetch_outside_sessions_gets_none(session: Session) -> None:
    response = session.fetch(-1, {0: 0})
    assert response.session_id == 0
    assert set(partitions_in(response)) == {0}


def test_a_session_cannot_change_between_names_and_ids(session: Session) -> None:
    session.open({0: 0}, version=BY_NAME)
    response = session.fetch(1, version=BY_ID)
    assert response.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
