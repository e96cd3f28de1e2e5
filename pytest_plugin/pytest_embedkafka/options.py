"""The plugin's options: each exists on the command line and in the ini file."""

import os
from collections.abc import Iterable
from dataclasses import dataclass

import pytest

DEFAULT_BROKERS = 3
_EXPLORE_SEED = "EMBEDKAFKA_EXPLORE_SEED"
_OWN, _SHARED = _XDIST = ("own", "shared")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options in effect; the command line overrides the ini file."""

    brokers: int
    bootstrap_servers: str | None
    kafka_config: dict[str, str]
    spark_config: dict[str, str]


def add_options(parser: pytest.Parser) -> None:
    """Declares the options, in a group of `pytest --help`."""
    group = parser.getgroup("embedkafka", "Kafka in the test process, and Spark")
    group.addoption(
        "--kafka-brokers",
        type=int,
        metavar="N",
        help=f"how many brokers `kafka` has (default: {DEFAULT_BROKERS})",
    )
    group.addoption(
        "--kafka-bootstrap",
        metavar="HOST:PORT,...",
        help="run tests that use `kafka` on this cluster instead of an embedded one",
    )
    group.addoption(
        "--kafka-xdist",
        choices=_XDIST,
        help="whether each worker of pytest-xdist starts a cluster or all share one (default: own)",
    )
    group.addoption(
        "--kafka-config",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a broker setting for `kafka`; may be repeated",
    )
    group.addoption(
        "--spark-config",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a Spark setting for `spark`; may be repeated",
    )
    group.addoption(
        "--explore-seed",
        metavar="SEED",
        help="the seed of `explore`; one that it printed, such as 7/3, repeats what it found",
    )
    parser.addini("kafka_brokers", "as --kafka-brokers", default=str(DEFAULT_BROKERS))
    parser.addini("kafka_bootstrap", "as --kafka-bootstrap", default="")
    parser.addini("kafka_xdist", "as --kafka-xdist", default=_OWN)
    parser.addini("kafka_config", "as --kafka-config, one per line", type="linelist")
    parser.addini("spark_config", "as --spark-config, one per line", type="linelist")
    parser.addini("explore_seed", "as --explore-seed", default="")


def read_options(config: pytest.Config) -> Options:
    """Reads the options; raises `pytest.UsageError` for bad values."""
    return Options(
        brokers=_brokers(config),
        bootstrap_servers=config.getoption("kafka_bootstrap")
        or config.getini("kafka_bootstrap")
        or None,
        kafka_config=_pairs("kafka_config", config),
        spark_config=_pairs("spark_config", config),
    )


def is_shared(config: pytest.Config) -> bool:
    """Whether the workers of pytest-xdist share one cluster."""
    given = config.getoption("kafka_xdist") or config.getini("kafka_xdist")
    if given not in _XDIST:
        raise pytest.UsageError(f"kafka_xdist must be {' or '.join(_XDIST)}, not {given!r}")
    return bool(given == _SHARED)


def pass_explore_seed(config: pytest.Config) -> None:
    """Hands the seed to `explore`, which knows nothing of pytest, in an environment variable."""
    seed = config.getoption("explore_seed") or config.getini("explore_seed")
    if not seed:
        return
    before = os.environ.get(_EXPLORE_SEED)
    os.environ[_EXPLORE_SEED] = seed

    def restore() -> None:
        if before is None:
            del os.environ[_EXPLORE_SEED]
        else:
            os.environ[_EXPLORE_SEED] = before

    config.add_cleanup(restore)


def _brokers(config: pytest.Config) -> int:
    option = config.getoption("kafka_brokers")
    given = config.getini("kafka_brokers") if option is None else option
    if not str(given).isdecimal() or int(given) < 1:
        raise pytest.UsageError(f"kafka_brokers must be a whole number from 1 on, not {given!r}")
    return int(given)


def _pairs(name: str, config: pytest.Config) -> dict[str, str]:
    lines: Iterable[str] = [*config.getini(name), *config.getoption(name)]
    pairs = {}
    for line in lines:
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise pytest.UsageError(f"{name} takes KEY=VALUE, not {line!r}")
        pairs[key.strip()] = value.strip()
    return pairs
