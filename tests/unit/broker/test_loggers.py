import logging
from collections.abc import Iterator

import pytest

from embedkafka.broker.loggers import LOGGERS, check_level, level_of, set_level
from embedkafka.wire.protocol.errors import ApiError


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """Puts the levels of Python's loggers back."""
    before = {name: logging.getLogger(name).level for name in LOGGERS.values()}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


@pytest.mark.parametrize(
    ("level", "number"),
    [("TRACE", 5), ("DEBUG", 10), ("INFO", 20), ("WARN", 30), ("ERROR", 40), ("FATAL", 50)],
)
def test_a_kafka_logger_is_a_python_logger(level: str, number: int) -> None:
    set_level("kafka.controller", level)
    assert logging.getLogger("embedkafka.broker.controller").level == number
    assert level_of("kafka.controller") == level


def test_a_logger_without_a_level_has_that_of_its_parent() -> None:
    set_level("root", "ERROR")
    set_level("kafka.log", "DEBUG")
    assert (level_of("kafka.log.LogCleaner"), level_of("kafka.server")) == ("DEBUG", "ERROR")
    set_level("kafka.log", None)
    assert level_of("kafka.log.LogCleaner") == "ERROR"


def test_the_root_is_not_that_of_the_program() -> None:
    before = logging.getLogger().level
    set_level("root", "FATAL")
    assert logging.getLogger().level == before


def test_levels_in_between_have_a_name_too() -> None:
    logging.getLogger("embedkafka").setLevel(25)
    assert level_of("root") == "INFO"
    logging.getLogger("embedkafka").setLevel(1)
    assert level_of("root") == "TRACE"


def test_a_logger_that_does_not_exist_is_named() -> None:
    with pytest.raises(ApiError, match=r"Logger no\.such does not exist"):
        check_level("no.such", "INFO")
    with pytest.raises(ApiError, match="Valid log levels are DEBUG, ERROR"):
        check_level("root", "LOUD")
