"""Broker settings from `--properties` and `--config`."""

import argparse
import logging
from collections.abc import Callable
from pathlib import Path

from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.properties import read_properties

_LOG = logging.getLogger(__name__)


def settings_of(parsed: argparse.Namespace) -> dict[str, str]:
    """The settings that the arguments give; `--config` overrides the file."""
    file = parsed.properties
    given = read_pairs(file, "--properties", lambda: read_properties(file))
    known = {name: value for name, value in given.items() if _is_known(name, file)}
    return {**known, **dict(parsed.config)}


def read_pairs(
    file: Path | None, option: str, read: Callable[[], dict[str, str]]
) -> dict[str, str]:
    """What a file holds; raises `ConfigError`, which names the option."""
    if file is None:
        return {}
    try:
        return read()
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {option} {file}: {error}") from error


def _is_known(name: str, file: Path) -> bool:
    """Whether it is a broker setting. Like Kafka, warns of others: plug-ins read the same file."""
    from embedkafka.broker.settings.broker import is_known_setting

    if is_known_setting(name):
        return True
    _LOG.warning("%s: ignoring unknown broker setting %s", file, name)
    return False
