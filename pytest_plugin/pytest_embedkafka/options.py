"""The plugin's options: each exists on the command line and in the ini file."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

DEFAULT_BROKERS = 3
BOOTSTRAP = "EMBEDKAFKA_BOOTSTRAP"
"""The variable in which `embedkafka up` names its cluster."""
_LOOPBACK = "127.0.0.1"
_MAX_PORT = 65_535
_OWN, _SHARED = _XDIST = ("own", "shared")
_ARCHIVE = ("auto", "use", "new", "no")
_STRICT = ("yes", "no")
_WARM = "EMBEDKAFKA_SPARK_WARM"
_PATIENCE = "EMBEDKAFKA_PATIENCE"
_LEFTOVERS = ("fail", "stop", "keep")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options in effect; the command line overrides the ini file."""

    brokers: int
    host: str
    port: int
    """The first broker's; 0 for free ports."""
    bootstrap_servers: str | None
    client_config: str | None
    kafka_config: dict[str, str]
    security: str | None
    mechanisms: list[str]
    users: dict[str, str] = field(repr=False)
    spark_config: dict[str, str]
    spark_master: str | None
    spark_remote: str | None
    spark_archive: str | None
    spark_packages: list[str]
    spark_warm: bool


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
        "--kafka-host",
        metavar="ADDRESS",
        help="the address of this machine that the brokers of `kafka` listen on, for Spark "
        f"executors on other machines (default: {_LOOPBACK})",
    )
    group.addoption(
        "--kafka-port",
        metavar="PORT",
        help="the port of `kafka`'s first broker, for code that cannot be told otherwise; the "
        "others take the following ones (default: 0, free ports)",
    )
    group.addoption(
        "--kafka-bootstrap",
        metavar="HOST:PORT,...",
        help="run tests that use `kafka` on this cluster instead of an embedded one (default: the "
        "one of `embedkafka up`, if pytest runs there)",
    )
    group.addoption(
        "--kafka-client-config",
        metavar="FILE",
        help="properties of Kafka's Java client, such as credentials, for --kafka-bootstrap",
    )
    group.addoption(
        "--kafka-xdist",
        choices=_XDIST,
        help="whether each worker of pytest-xdist starts a cluster or all share one (default: own)",
    )
    group.addoption(
        "--kafka-report",
        metavar="FILE",
        help="write a page of the run to this file: failed tests, a timeline, topics with their "
        "last records, groups and their lag",
    )
    group.addoption(
        "--kafka-config",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a broker setting for `kafka`; may be repeated",
    )
    group.addoption(
        "--kafka-security",
        metavar="PROTOCOL",
        help="what clients of `kafka` must speak: sasl_ssl, sasl_plaintext or ssl (default: plain "
        "text)",
    )
    group.addoption(
        "--kafka-mechanism",
        action="append",
        default=[],
        metavar="NAME",
        help="with SASL, how they log in: scram-sha-512, scram-sha-256, plain or oauthbearer; may "
        "be repeated (default: scram-sha-512)",
    )
    group.addoption(
        "--kafka-user",
        action="append",
        default=[],
        metavar="NAME[:PASSWORD]",
        help="a user who may log in; may be repeated",
    )
    group.addoption(
        "--kafka-strict",
        choices=_STRICT,
        nargs="?",
        const=_STRICT[0],
        help="whether a test fails that leaves clients, open transactions or clusters "
        "in use; by default it warns (default: no)",
    )
    group.addoption(
        "--kafka-patience",
        metavar="FACTOR",
        help="multiply the timeouts of all waits, also those that tests name, for machines that "
        "are slower (default: as EMBEDKAFKA_PATIENCE says, or 1)",
    )
    group.addoption(
        "--spark-master",
        metavar="URL",
        help="run `spark` on this cluster: spark://host:port, yarn, k8s://host:port or "
        "local-cluster[N,cores,MB]",
    )
    group.addoption(
        "--spark-remote",
        metavar="sc://HOST:PORT",
        help="run `spark` on this Spark Connect server, which must have the Kafka connector",
    )
    group.addoption(
        "--spark-xdist",
        choices=_XDIST,
        help="whether each worker of pytest-xdist starts a Spark session or all share one Spark "
        "Connect server (default: own)",
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
        help="the seed of `explore`; one that it printed, such as 7/3, repeats what it found "
        "(default: random; in CI, that of the test's id)",
    )
    group.addoption(
        "--spark-package",
        action="append",
        default=[],
        metavar="NAME",
        help="a further module for `spark`: spark-avro, spark-protobuf, delta or iceberg; may be "
        "repeated",
    )
    group.addoption(
        "--spark-archive",
        choices=_ARCHIVE,
        help="whether `spark` starts from an archive of its classes, about 170 MB in the cache, "
        "which the first run writes (default: auto, which writes none in CI); "
        "use: write none; new: write it again",
    )
    group.addoption(
        "--spark-warm",
        action="store_true",  # a value would be optional, and swallow a path that follows
        help="let `spark` take the JVM that an earlier run has left, and leave its own for ten "
        "minutes (default: as EMBEDKAFKA_SPARK_WARM=1 or 0 says; the ini file does not count in "
        "CI)",
    )
    group.addoption(
        "--spark-leftovers",
        choices=_LEFTOVERS,
        help="what to do about a streaming query that a test leaves running: stop it and fail the "
        "test, only stop it, or let it run (default: fail)",
    )
    parser.addini("kafka_brokers", "as --kafka-brokers", default=str(DEFAULT_BROKERS))
    parser.addini("kafka_host", "as --kafka-host", default=_LOOPBACK)
    parser.addini("kafka_port", "as --kafka-port", default="0")
    parser.addini("kafka_bootstrap", "as --kafka-bootstrap", default="")
    parser.addini("kafka_client_config", "as --kafka-client-config", default="")
    parser.addini("kafka_xdist", "as --kafka-xdist", default=_OWN)
    parser.addini("kafka_report", "as --kafka-report", default="")
    parser.addini("kafka_config", "as --kafka-config, one per line", type="linelist")
    parser.addini("kafka_security", "as --kafka-security", default="")
    parser.addini("kafka_mechanism", "as --kafka-mechanism, one per line", type="linelist")
    parser.addini("kafka_user", "as --kafka-user, one per line", type="linelist")
    parser.addini("kafka_strict", "as --kafka-strict", default=_STRICT[1])
    parser.addini("kafka_patience", "as --kafka-patience", default="")
    parser.addini("spark_master", "as --spark-master", default="")
    parser.addini("spark_remote", "as --spark-remote", default="")
    parser.addini("spark_xdist", "as --spark-xdist", default=_OWN)
    parser.addini("spark_config", "as --spark-config, one per line", type="linelist")
    parser.addini("spark_leftovers", "as --spark-leftovers", default=_LEFTOVERS[0])
    parser.addini("explore_seed", "as --explore-seed", default="")
    parser.addini("spark_package", "as --spark-package, one per line", type="linelist")
    parser.addini("spark_archive", "as --spark-archive", default="")
    parser.addini("spark_warm", "as --spark-warm", default=_STRICT[1])


def read_options(config: pytest.Config) -> Options:
    """Reads the options; raises `pytest.UsageError` for bad values."""
    return Options(
        brokers=_brokers(config),
        host=_text("kafka_host", config) or _LOOPBACK,
        port=_port(config),
        bootstrap_servers=_text("kafka_bootstrap", config) or os.environ.get(BOOTSTRAP) or None,
        client_config=_text("kafka_client_config", config),
        kafka_config=_pairs("kafka_config", config),
        security=_text("kafka_security", config),
        mechanisms=config.getoption("kafka_mechanism") or config.getini("kafka_mechanism"),
        users=_users(config),
        spark_config=_pairs("spark_config", config),
        spark_master=_text("spark_master", config),
        spark_remote=_text("spark_remote", config),
        spark_archive=_archive(config),
        spark_packages=[*config.getini("spark_package"), *config.getoption("spark_package")],
        spark_warm=_warm(config),
    )


def embedded_settings(options: Options) -> dict[str, Any]:
    """Arguments of EmbeddedKafka, or Any of them: what the options say about its own cluster."""
    settings: dict[str, Any] = {
        "brokers": options.brokers,
        "host": None if options.host == _LOOPBACK else options.host,  # `listeners` may have others
        "port": options.port,
        "config": options.kafka_config,
    }
    if options.security is None:
        if options.users or options.mechanisms:
            raise pytest.UsageError(
                "kafka_user and kafka_mechanism need kafka_security, such as sasl_ssl"
            )
        return settings
    from embedkafka import Security

    security = Security(
        protocol=options.security.upper(),
        mechanism=[name.upper() for name in options.mechanisms] or None,
        users=options.users,
    )
    return {**settings, "security": security}


def distributes(config: pytest.Config) -> bool:
    """Whether this process hands the tests to workers of pytest-xdist."""
    is_worker = hasattr(config, "workerinput")
    return not is_worker and config.getoption("dist", "no") != "no"


def chooses_cluster(config: pytest.Config) -> bool:
    """Whether the options name a cluster or change its settings."""
    options = read_options(config)
    return bool(
        options.bootstrap_servers
        or options.client_config
        or options.kafka_config
        or options.security
        or chooses_addresses(options)
    )


def chooses_addresses(options: Options) -> bool:
    """Whether the options say where brokers listen; the machine may refuse that."""
    return options.host != _LOOPBACK or options.port != 0 or "listeners" in options.kafka_config


def shares_kafka(config: pytest.Config) -> bool:
    """Whether the workers of pytest-xdist share one cluster."""
    return _is_shared("kafka_xdist", config)


def shares_spark(config: pytest.Config) -> bool:
    """Whether the workers of pytest-xdist share one Spark Connect server."""
    return _is_shared("spark_xdist", config)


def _is_shared(name: str, config: pytest.Config) -> bool:
    given = _text(name, config)
    if given not in _XDIST:
        raise pytest.UsageError(f"{name} must be {' or '.join(_XDIST)}, not {given!r}")
    return given == _SHARED


def _text(name: str, config: pytest.Config) -> str | None:
    return config.getoption(name) or config.getini(name) or None


def report_path(config: pytest.Config) -> Path | None:
    """Where the page of the run goes, if it is wanted; relative to where pytest was started."""
    given = _text("kafka_report", config)
    if given is None:
        return None
    path = config.invocation_params.dir / given
    if path.is_dir():
        raise pytest.UsageError(
            f"--kafka-report {given} is a directory: name a file, such as {given}/report.html"
        )
    return path


def explore_seed(config: pytest.Config) -> str | None:
    """The seed for `explore`, if the run names one."""
    return _text("explore_seed", config)


def is_strict(config: pytest.Config) -> bool:
    """Whether what a test leaves in use fails it."""
    given = config.getoption("kafka_strict") or config.getini("kafka_strict")
    if given not in _STRICT:
        raise pytest.UsageError(f"kafka_strict must be {' or '.join(_STRICT)}, not {given!r}")
    return bool(given == _STRICT[0])


def pass_patience(config: pytest.Config) -> None:
    """Hands the factor of timeouts to the library, which knows nothing of pytest."""
    given = _text("kafka_patience", config)
    if given is None:
        return
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", given) or not float(given):
        raise pytest.UsageError(f"kafka_patience must be a number above 0, not {given!r}")
    patch = pytest.MonkeyPatch()
    patch.setenv(_PATIENCE, given)
    config.add_cleanup(patch.undo)


def leftovers(config: pytest.Config) -> str:
    """What happens to a query that a test leaves running: "fail", "stop" or "keep"."""
    given = str(config.getoption("spark_leftovers") or config.getini("spark_leftovers"))
    if given not in _LEFTOVERS:
        raise pytest.UsageError(
            f"spark_leftovers must be {', '.join(_LEFTOVERS[:-1])} or {_LEFTOVERS[-1]}, "
            f"not {given!r}"
        )
    return given


def _brokers(config: pytest.Config) -> int:
    option = config.getoption("kafka_brokers")
    given = config.getini("kafka_brokers") if option is None else option
    if not str(given).isdecimal() or int(given) < 1:
        raise pytest.UsageError(f"kafka_brokers must be a whole number from 1 on, not {given!r}")
    return int(given)


def _port(config: pytest.Config) -> int:
    given = _text("kafka_port", config) or "0"
    if not given.isdecimal() or int(given) > _MAX_PORT:
        raise pytest.UsageError(f"kafka_port must be a port, such as 9092, not {given!r}")
    return int(given)


def _archive(config: pytest.Config) -> str | None:
    given = config.getoption("spark_archive") or config.getini("spark_archive") or None
    if given is not None and given not in _ARCHIVE:
        raise pytest.UsageError(f"spark_archive must be {' or '.join(_ARCHIVE)}, not {given!r}")
    return given


def _warm(config: pytest.Config) -> bool:
    """A project's own file says what is good for a developer; CI asks by itself."""
    configured = _yes_or_no("spark_warm", config.getini("spark_warm"), _STRICT)
    if config.getoption("spark_warm"):
        return True
    if variable := os.environ.get(_WARM):
        return _yes_or_no(_WARM, variable, ("1", "0"))
    return configured and not os.environ.get("CI")


def _yes_or_no(name: str, given: str, words: tuple[str, str]) -> bool:
    if given not in words:
        raise pytest.UsageError(f"{name} must be {' or '.join(words)}, not {given!r}")
    return given == words[0]


def _users(config: pytest.Config) -> dict[str, str]:
    given = [*config.getini("kafka_user"), *config.getoption("kafka_user")]
    return {name: password for name, _, password in (user.partition(":") for user in given)}


def _pairs(name: str, config: pytest.Config) -> dict[str, str]:
    lines: Iterable[str] = [*config.getini(name), *config.getoption(name)]
    pairs = {}
    for line in lines:
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise pytest.UsageError(f"{name} takes KEY=VALUE, not {line!r}")
        pairs[key.strip()] = value.strip()
    return pairs
