"""A session without the connector: Spark's error gets the way out."""

import pytest

from embedkafka.spark.connector.missing import (
    NOTE,
    explain_missing_connector,
    explaining_missing_connector,
)
from embedkafka.spark.frames import topic_to_df

SPARK_SAYS = "Failed to find data source: kafka. Please deploy the application as per the guide."


class Nothing:
    """A session without the connector, and its reader."""

    def __getattr__(self, name: str) -> "Nothing":
        return self

    def __call__(self, *arguments: object, **named: object) -> "Nothing":
        return self

    def load(self) -> None:
        raise RuntimeError(SPARK_SAYS)


def notes(error: BaseException) -> list[str]:
    return list(getattr(error, "__notes__", ()))


def test_a_topic_as_a_frame_says_it_once() -> None:
    bare = Nothing()
    with pytest.raises(RuntimeError, match="Failed to find") as raised:
        topic_to_df(bare, "h:1", "orders")  # type: ignore[arg-type]  # a session
    explain_missing_connector(raised.value)  # as the plugin does
    assert notes(raised.value) == [NOTE]
    assert "spark-jars" in NOTE
    assert "fixture `spark`" in NOTE


def test_an_error_behind_another_gets_the_note() -> None:
    with pytest.raises(ValueError) as raised, explaining_missing_connector():
        try:
            raise RuntimeError(SPARK_SAYS)
        except RuntimeError as error:
            raise ValueError("no rows") from error
    assert notes(raised.value) == []
    assert raised.value.__cause__ is not None
    assert notes(raised.value.__cause__) == [NOTE]


def test_other_errors_stay_as_they_are() -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise ConnectionError("its JVM is gone")

    for error in (ValueError("Failed to find data source: delta"), Silent()):
        explain_missing_connector(error)
        assert notes(error) == []
