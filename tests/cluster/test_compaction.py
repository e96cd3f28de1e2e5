"""A compacted topic, as a user sees it."""

from embedkafka import EmbeddedKafka


def test_a_compacted_topic_keeps_the_newest_value_of_each_key():
    with EmbeddedKafka(config={"log.cleaner.backoff.ms": 10}) as kafka:
        topic = kafka.topic(
            config={
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": 0.01,
                "segment.bytes": 100,  # one record
            }
        )
        for round_ in range(3):
            for key in ("a", "b", "c"):
                topic.send(f"{key}{round_}", key=key)
        topic.send("open", key="last")  # the active segment is never compacted
        kept = topic.wait_for(lambda messages: bool(messages))
        while len(kept) > 4:  # each read is a look at the log, which shrinks while we look
            kept = topic.read()
        assert [(m.key, m.value) for m in kept] == [
            (b"a", b"a2"),
            (b"b", b"b2"),
            (b"c", b"c2"),
            (b"last", b"open"),
        ]
        assert [m.offset for m in kept] == [6, 7, 8, 9]
