"""The cluster of `serve` and `up`: its options, its topics, users and security, its metrics."""

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from embedkafka.cli.options import path, port_number, setting
from embedkafka.cli.settings import read_pairs, settings_of
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.problems import Problems
from embedkafka.runtime.properties import parse_properties

if TYPE_CHECKING:
    from embedkafka import EmbeddedKafka, Security, TopicSpec


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """The options of `serve` and `up`, but for those that `broker` has too."""
    parser.add_argument(
        "--metrics-port",
        type=port_number,
        metavar="P",
        help="serve metrics for Prometheus at http://127.0.0.1:P/metrics; 0 takes a free port "
        "(default: serve none)",
    )
    parser.add_argument(
        "--brokers", type=int, default=1, metavar="N", help="how many brokers to run (default: 1)"
    )
    parser.add_argument(
        "--port",
        type=int,
        default=0,
        metavar="P",
        help="the brokers' ports: P, P+1, ... (default: those of `listeners` in the settings, or "
        "else free ports). An address in `advertised.listeners` moves with its listener",
    )
    parser.add_argument(
        "--topic",
        type=_topic,
        action="append",
        default=[],
        metavar="NAME[:PARTITIONS[:REPLICATION]]",
        help="create this topic; may be repeated",
    )
    parser.add_argument(
        "--topic-config",
        type=_topic_setting,
        action="append",
        default=[],
        metavar="NAME:KEY=VALUE",
        help="a setting of a topic that --topic creates; may be repeated",
    )
    parser.add_argument(
        "--racks",
        type=_names,
        metavar="R1,R2,...",
        help="the rack of each broker (default: none)",
    )
    parser.add_argument(
        "--zookeeper",
        metavar="HOST:PORT[/CHROOT]",
        help="the real ZooKeeper to use (default: a tree in this process)",
    )
    parser.add_argument(
        "--durability",
        choices=["kill", "power"],
        default="kill",
        help="what acknowledged data in --data-dir survives: the end of the process, however it "
        "ends, or also a loss of power (default: kill)",
    )
    parser.add_argument(
        "--log-dirs",
        type=int,
        default=1,
        metavar="N",
        help="how many log directories each broker has (default: 1)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="repeat the cluster's random choices (default: others each time)",
    )
    parser.add_argument(
        "--kafka-defaults",
        dest="defaults",
        action="store_const",
        const="kafka",
        default="tests",
        help="let settings be by default as in Apache Kafka, not as tests like them",
    )
    _add_security_options(parser)


def _add_security_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--security",
        type=str.upper,
        metavar="PROTOCOL",
        help="what clients must speak: sasl_ssl, sasl_plaintext or ssl (default: plain text)",
    )
    parser.add_argument(
        "--mechanism",
        type=str.upper,
        action="append",
        metavar="NAME",
        help="with SASL, how they log in: scram-sha-512, scram-sha-256, plain or oauthbearer; may "
        "be repeated (default: scram-sha-512)",
    )
    parser.add_argument(
        "--anonymous",
        action="store_true",
        help="also let clients in that do not log in, at a listener PLAINTEXT",
    )
    parser.add_argument(
        "--user",
        type=_user,
        action="append",
        default=[],
        metavar="NAME[:PASSWORD]",
        help="a user who may log in, as --security or the listeners of --properties say; may be "
        "repeated",
    )
    parser.add_argument(
        "--users-file",
        type=path,
        metavar="FILE",
        help="further users, a line NAME=PASSWORD for each: other programs cannot see these in "
        "the list of processes",
    )


def make_cluster(parsed: argparse.Namespace) -> "EmbeddedKafka":
    """The cluster that the arguments describe; raises `ConfigError` with all that is wrong."""
    from embedkafka import EmbeddedKafka

    problems = Problems()
    settings = problems.attempt(lambda: settings_of(parsed))
    topics = problems.attempt(lambda: _topics(parsed))
    security = problems.attempt(lambda: _security(parsed, settings or {}))
    kafka = problems.attempt(
        lambda: EmbeddedKafka(
            brokers=parsed.brokers,
            config=settings,
            topics=topics,
            data_dir=parsed.data_dir,
            host=parsed.host,
            port=parsed.port,
            advertise=parsed.advertise,
            racks=parsed.racks,
            zookeeper=parsed.zookeeper,
            durability=parsed.durability,
            log_dirs=parsed.log_dirs,
            seed=parsed.seed,
            security=security,
            defaults=parsed.defaults,
        )
    )
    problems.raise_all()
    assert kafka is not None
    return kafka


def users_of(parsed: argparse.Namespace) -> dict[str, str]:
    """Users and their passwords, from the file and the options."""
    file = parsed.users_file
    from_file = read_pairs(file, "--users-file", lambda: parse_properties(file.read_text("utf-8")))
    return {**from_file, **dict(parsed.user)}


@contextmanager
def metrics_page(kafka: "EmbeddedKafka", port: int | None) -> Iterator[str | None]:
    """Serves the page, if there is a port for it; gives its address."""
    if port is None:
        yield None
        return
    from embedkafka.cluster.metrics_page import MetricsPage

    page = MetricsPage(kafka, port=port)
    try:
        yield page.url
    finally:
        page.close()


def _topics(parsed: argparse.Namespace) -> "dict[str, TopicSpec]":
    from embedkafka.cluster.config import TopicSpec

    problems = Problems()
    settings: dict[str, dict[str, str]] = {name: {} for name, _, _ in parsed.topic}
    for name, (key, value) in parsed.topic_config:
        if name in settings:
            settings[name][key] = value
        else:
            problems.add(
                f"--topic-config {name}:{key}={value}: give --topic {name} too, which creates it"
            )

    def make(name: str, partitions: int, replication: int | None) -> TopicSpec:
        try:
            return TopicSpec(partitions=partitions, replication=replication, config=settings[name])
        except ConfigError as error:
            raise ConfigError(*(f"--topic {name}: {reason}" for reason in error.problems)) from None

    made = {topic[0]: problems.attempt(partial(make, *topic)) for topic in parsed.topic}
    problems.raise_all()
    return {name: spec for name, spec in made.items() if spec is not None}


def _security(parsed: argparse.Namespace, settings: Mapping[str, object]) -> "Security | None":
    protocol, mechanism = parsed.security, parsed.mechanism
    if protocol is None:
        if not (parsed.user or parsed.users_file or mechanism or parsed.anonymous):
            return None
        protocol, found = _find_ways_in(settings)
        mechanism = mechanism or found
    from embedkafka import Security

    return Security(
        protocol=protocol,
        mechanism=mechanism,
        users=users_of(parsed),
        anonymous=parsed.anonymous,
    )


def _find_ways_in(settings: Mapping[str, object]) -> tuple[str, list[str]]:
    from embedkafka.cluster.access.sasl_settings import enabled_mechanisms, find_ways_in

    found = find_ways_in(settings)
    if found is None:
        enabled = enabled_mechanisms(settings).items()
        having = "".join(f"; {name} has {', '.join(each)}" for name, each in enabled)
        raise ConfigError(
            "users, --mechanism and --anonymous need --security, such as sasl_ssl, or a listener "
            f"of --properties whose clients have passwords{having}"
        )
    return found


def _user(text: str) -> tuple[str, str]:
    name, _, password = text.partition(":")
    return name, password


def _topic(text: str) -> tuple[str, int, int | None]:
    name, *numbers = text.split(":")
    if not name or len(numbers) > 2 or not all(number.isdecimal() for number in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME[:PARTITIONS[:REPLICATION]]")
    partitions = int(numbers[0]) if numbers else 1
    return name, partitions, int(numbers[1]) if len(numbers) == 2 else None


def _topic_setting(text: str) -> tuple[str, tuple[str, str]]:
    name, colon, given = text.partition(":")
    if not name or not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME:KEY=VALUE")
    return name, setting(given)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]
