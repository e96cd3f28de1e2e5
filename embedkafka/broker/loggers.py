"""Kafka's loggers and their levels, which are those of Python's loggers.

A tool that changes the level of `kafka.controller` changes that of `embedkafka.broker.controller`.
All brokers of a process share the loggers. `root` stands for `embedkafka`, not for the program's
own.
Owner: Python's `logging`, which any thread may call.
"""

import logging
from collections.abc import Mapping
from typing import Final

from embedkafka.wire.protocol.errors import ApiError, ErrorCode

ROOT: Final = "root"

LOGGERS: Final[Mapping[str, str]] = {
    ROOT: "embedkafka",
    "kafka.cluster": "embedkafka.broker.replica",
    "kafka.controller": "embedkafka.broker.controller",
    "kafka.coordinator.group": "embedkafka.broker.coordinator.groups",
    "kafka.coordinator.transaction": "embedkafka.broker.coordinator.transactions",
    "kafka.log": "embedkafka.broker.log",
    "kafka.log.LogCleaner": "embedkafka.broker.log.cleaning",
    "kafka.network": "embedkafka.wire.net",
    "kafka.server": "embedkafka.broker",
    "kafka.zk": "embedkafka.zk",
    "state.change.logger": "embedkafka.state.change.logger",
}
"""Python's loggers by the names of Kafka's."""

_LEVELS: Final[Mapping[str, int]] = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": 5,
    "WARN": logging.WARNING,
}


def level_of(name: str) -> str:
    """The level in force, in Kafka's words; a level between two of them counts as the finer one."""
    level = logging.getLogger(LOGGERS[name]).getEffectiveLevel()
    named = sorted((value, word) for word, value in _LEVELS.items())
    return next((word for value, word in reversed(named) if value <= level), named[0][1])


def check_level(name: str, level: str | None) -> None:
    """Refuses loggers and levels that do not exist; None stands for the parent's level."""
    if name not in LOGGERS:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if level is None and name == ROOT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"
        )
    if level is not None and level not in _LEVELS:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(_LEVELS)}",
        )


def find_levels() -> dict[str, int]:
    """The levels of Python's loggers, by name."""
    return {name: logging.getLogger(name).level for name in LOGGERS.values()}


def restore_levels(levels: Mapping[str, int]) -> None:
    """Makes them as `find_levels` found them."""
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def set_level(name: str, level: str | None) -> None:
    """Changes the level of a logger; None takes over that of its parent."""
    number = logging.NOTSET if level is None else _LEVELS[level]
    logging.getLogger(LOGGERS[name]).setLevel(number)
