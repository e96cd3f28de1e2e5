"""What tests wait for of the followers of a partition."""

from embedkafka import EmbeddedKafka
from tests.wire.clients import eventually


def await_first_fetches(kafka: EmbeddedKafka, topic: str) -> None:
    """Returns once each follower has asked its leader for records, who then knows where it is."""
    eventually(
        lambda: all(
            each.log_end_offset is not None for each in kafka.existing_topic(topic).followers()
        ),
        f"all followers of {topic} have fetched",
    )
