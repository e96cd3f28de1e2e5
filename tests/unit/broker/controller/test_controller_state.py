"""Kafka's names of what a controller does."""

from typing import get_args

import pytest

from embedkafka.broker.controller import events
from embedkafka.broker.controller.controller_state import _KINDS, ControllerState, kind_of
from embedkafka.broker.controller.events import Event
from embedkafka.broker.controller.request_batch import ControlResponse, Outgoing
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.protocol.messages.brokers import (
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataResponse,
)


def test_every_event_has_a_kind() -> None:
    assert {*get_args(Event)} - {events.ResponseReceived} == _KINDS.keys()


@pytest.mark.parametrize(
    ("response", "kind", "state"),
    [
        (LeaderAndIsrResponse(topics=[]), "LeaderAndIsrResponseReceived", 10),
        (UpdateMetadataResponse(), "UpdateMetadataResponseReceived", 16),
        (
            StopReplicaResponse(partition_errors=[]),
            "TopicDeletionStopReplicaResponseReceived",
            4,
        ),
    ],
)
def test_answers_are_named_by_what_they_answer(
    response: ControlResponse, kind: str, state: int
) -> None:
    request = StopReplicaRequest(controller_id=1, controller_epoch=1, topic_states=[])
    received = events.ResponseReceived(Outgoing(broker=3, request=request, version=4), response)
    found = kind_of(received)
    assert (found.name, found.state.value, found.about) == (kind, state, "broker 3")


@pytest.mark.parametrize(
    ("event", "kind", "about"),
    [
        (events.SessionLost(), "Expire", ""),
        (events.BrokerModifications(2), "BrokerModifications", "broker 2"),
        (events.PartitionModifications("orders"), "PartitionModifications", "orders"),
        (
            events.ReassignmentIsrChange(TopicPartition("orders", 1)),
            "PartitionReassignmentIsrChange",
            "orders-1",
        ),
        (events.UncleanLeaderElectionEnable(), "UncleanLeaderElectionEnable", ""),
        (
            events.UncleanLeaderElectionEnable("orders"),
            "TopicUncleanLeaderElectionEnable",
            "orders",
        ),
        (
            events.ListPartitionReassignments(
                [TopicPartition("b", 0), TopicPartition("a", 1)], print
            ),
            "ListPartitionReassignments",
            "a-1, b-0",
        ),
    ],
)
def test_events_say_what_they_are_about(event: Event, kind: str, about: str) -> None:
    found = kind_of(event)
    assert (found.name, found.about) == (kind, about)


def test_timers_have_kafkas_names() -> None:
    assert ControllerState.BROKER_CHANGE.timer == "LeaderElectionRateAndTimeMs"
    assert ControllerState.TOPIC_CHANGE.timer == "TopicChangeRateAndTimeMs"
    assert ControllerState.IDLE.timer is None
