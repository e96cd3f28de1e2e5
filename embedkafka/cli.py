"""`embedkafka serve | up | broker | ...`: a cluster for any program, and tools around it.

Exit codes: 0 for success, 1 if the cluster failed, did not end or a log is damaged, 2 for misuse.
`up` exits with the code of its command, or 128 + n if signal n ended it.
"""

import argparse
import faulthandler
import logging
import os
import re
import select
import signal
import subprocess
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TextIO

from embedkafka.runtime.failures import (
    ConfigError,
    ConfigWarning,
    EmbedKafkaError,
    InvalidArgument,
)
from embedkafka.runtime.properties import parse_properties, read_properties
from embedkafka.terminal.commands import (
    add_reach_options,
    add_terminal_commands,
    path,
    port_number,
    whole_number,
)

if TYPE_CHECKING:
    from embedkafka import EmbeddedKafka, Security, TopicSpec

_LOG = logging.getLogger(__name__)

_STDIN: Final = 0
_STDERR: Final = 2
_LONGEST_END_S: Final = 120
_ENDING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_FORWARDED_SIGNALS: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
#: A shell's exit codes for a command that it cannot run, and for one that it cannot find.
_NOT_EXECUTABLE: Final = 126
_NOT_FOUND: Final = 127

_OPTIONS: Final[Mapping[str, str]] = {
    "broker_id": "--id",
    **{
        name: f"--{name.replace('_', '-')}"
        for name in (
            *("advertise", "anonymous", "brokers", "config", "data_dir", "durability", "host"),
            *(
                "log_dirs",
                "mechanism",
                "metrics_port",
                "port",
                "racks",
                "security",
                "seed",
                "zookeeper",
            ),
        )
    },
}
"""The options for arguments of `EmbeddedKafka`, `Security` and `BrokerProcess`."""
_ARGUMENT: Final = re.compile(
    rf"`({'|'.join(_OPTIONS)})`|(?<![\w.-])({'|'.join(_OPTIONS)})(?= must (?:be|have) )"
)
"""How messages write arguments: in backticks, or at their beginning."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand and returns the exit code."""
    parsed = _parse(sys.argv[1:] if arguments is None else list(arguments))
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        with _warnings_as_lines():
            code: int = parsed.run(parsed)
    except (ConfigError, InvalidArgument) as error:
        return _complain(_in_options(str(error)), code=2)
    except (EmbedKafkaError, OSError) as error:
        return _complain(str(error), code=1)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        faulthandler.cancel_dump_traceback_later()
    return code


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Prints one line on stderr for each setting without effect, whatever the warning filters."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_line(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, ConfigWarning):
                text = _in_options(str(message))
                print(f"embedkafka: warning: {text}", file=sys.stderr, flush=True)
            else:
                show(message, category, filename, lineno, file, line)

        warnings.simplefilter("always", ConfigWarning)
        warnings.showwarning = show_line
        try:
            yield
        finally:
            warnings.showwarning = show  # some Pythons without the GIL restore the filters only


def _in_options(text: str) -> str:
    """A message about arguments of Python, in which they are options of the command."""
    return _ARGUMENT.sub(lambda found: _OPTIONS[found[1] or found[2]], text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="embedkafka", description="A real multi-broker Kafka cluster inside one process."
    )
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    subcommands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    serve = subcommands.add_parser(
        "serve",
        help="run a cluster until stdin closes or a signal arrives",
        description="Prints `BOOTSTRAP host:port,...` once the cluster is ready, and a line "
        "`BOOTSTRAP.<LISTENER NAME> host:port,...` for each further listener. Lines that begin "
        "with `ADVERTISED` in place of `BOOTSTRAP` follow: the addresses that clients are given "
        "when they have connected. `CERTIFICATES directory` follows if the cluster made some, and "
        "for each user a line `CLIENT.<USER> file`, whose file is for Kafka's own tools. Ends on "
        "SIGINT, on SIGTERM, or when stdin closes.",
    )
    serve.set_defaults(run=_serve)
    up = subcommands.add_parser(
        "up",
        usage="embedkafka up [options] -- command [argument ...]",
        help="run a command with a cluster, and end with it",
        description="Sets EMBEDKAFKA_BOOTSTRAP and KAFKA_BOOTSTRAP_SERVERS to the cluster's "
        "addresses for the command, EMBEDKAFKA_BOOTSTRAP_<LISTENER NAME> to those of each further "
        "listener, and with --metrics-port EMBEDKAFKA_METRICS to the page's. Exits with the "
        "command's exit code.",
    )
    up.set_defaults(run=_up)
    broker = subcommands.add_parser(
        "broker",
        help="run one broker of a cluster that uses a real ZooKeeper",
        description="Prints `BOOTSTRAP host:port` once the broker has joined, and a line "
        "`BOOTSTRAP.<LISTENER NAME> host:port` for each further listener; then likewise "
        "`ADVERTISED`, the address that clients are given when they have connected. On "
        "SIGINT, on SIGTERM, or when stdin closes, it moves its leaders away and ends.",
    )
    _add_broker_options(broker)
    broker.set_defaults(run=_broker)
    for subcommand in (serve, up):
        subcommand.add_argument(
            "--metrics-port",
            type=port_number,
            metavar="P",
            help="serve metrics for Prometheus at http://127.0.0.1:P/metrics; 0 takes a free port "
            "(default: serve none)",
        )
        _add_cluster_options(subcommand)
    for subcommand in (serve, broker):
        subcommand.add_argument(
            "--stay", action="store_true", help="keep running when stdin closes"
        )
    for subcommand in (serve, up, broker):
        _add_common_options(subcommand)
    add_terminal_commands(subcommands)
    dump = subcommands.add_parser(
        "dump-log",
        help="print the contents of log files",
        description="Prints segments, batches, records, indexes and checkpoints. Problems are "
        "printed on lines that begin with `!`, and make the exit code 1.",
    )
    dump.add_argument(
        "path",
        type=path,
        metavar="PATH",
        help="a log file, or the directory of a partition, a broker or a whole --data-dir",
    )
    dump.add_argument("--json", action="store_true", help="print one JSON object per line")
    dump.set_defaults(run=_dump_log)
    jars = subcommands.add_parser(
        "spark-jars",
        help="find or download the Kafka connector for the installed PySpark",
        description="Prints the paths of the jars, one per line.",
    )
    jars.add_argument(
        "--package",
        action="append",
        default=[],
        metavar="NAME",
        help="also find this module of Spark, such as spark-avro; may be repeated",
    )
    jars.add_argument(
        "--archive",
        action="store_true",
        help="also run a small Spark job and archive its classes in the cache (about 170 MB), so "
        "that sessions start quicker",
    )
    jars.set_defaults(run=_spark_jars)
    jvm = subcommands.add_parser(
        "spark-jvm",
        help="list the warm JVMs that Spark sessions have left, or end them",
        description="A JVM that a session uses ends with that session.",
    )
    jvm.add_argument("action", choices=["list", "stop"], help="what to do")
    jvm.set_defaults(run=_spark_jvm)
    audit = subcommands.add_parser(
        "audit",
        help="prove or refute, on Spark, that one topic holds what another one does",
        description="Compares every record of two topics and prints what was lost, duplicated, "
        "altered or reordered. Exits with 0 if nothing was, with 1 if something was, and with 2 "
        "if it could not compare.",
    )
    _add_audit_options(audit)
    audit.set_defaults(run=_audit)
    return parser


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str, **given: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **given)

    def __call__(self, parser: argparse.ArgumentParser, *arguments: object) -> NoReturn:
        from embedkafka.terminal.doctor import version_of

        print(f"embedkafka {version_of('embedkafka') or 'from its sources'}")
        parser.exit()


def _add_cluster_options(parser: argparse.ArgumentParser) -> None:
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


def _add_broker_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--zookeeper", required=True, metavar="HOST:PORT[/CHROOT]", help="the ZooKeeper to use"
    )
    parser.add_argument("--id", type=int, required=True, metavar="N", help="the broker's id")
    parser.add_argument(
        "--port",
        type=int,
        default=0,
        metavar="P",
        help="the port for clients (default: that of `listeners` in the settings, or else a free "
        "one)",
    )


def _add_common_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host",
        metavar="H",
        help="the address to listen on (default: those of `listeners` in the settings, or else "
        "127.0.0.1); with 0.0.0.0 or ::, clients are given this machine's own address",
    )
    parser.add_argument(
        "--advertise",
        metavar="HOST",
        help="the host that clients are given, with the port that a broker listens on (default: "
        "`advertised.listeners` in the settings, or else where it listens)",
    )
    parser.add_argument(
        "--properties",
        type=path,
        metavar="FILE",
        help="broker settings in the format of server.properties",
    )
    parser.add_argument(
        "--config",
        type=_setting,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a broker setting, which overrides the file; may be repeated",
    )
    parser.add_argument(
        "--data-dir",
        type=path,
        metavar="D",
        help="keep the data in this directory (default: keep nothing)",
    )


def _add_audit_options(parser: argparse.ArgumentParser) -> None:
    add_reach_options(parser)
    parser.add_argument("--source", required=True, metavar="TOPIC", help="what was written")
    parser.add_argument("--sink", required=True, metavar="TOPIC", help="what arrived")
    parser.add_argument(
        "--key",
        action="append",
        metavar="FIELD",
        help="what identifies a record: a field or path (`$.a.b`) of its JSON value, or a column "
        "of Spark's Kafka source; may be repeated (default: Kafka's key)",
    )
    parser.add_argument(
        "--value",
        action="append",
        metavar="FIELD",
        help="what must be equal, likewise; `$` is the JSON value whatever its white space "
        "(default: Kafka's value)",
    )
    parser.add_argument(
        "--unordered", action="store_true", help="do not judge the order of each key's records"
    )
    parser.add_argument(
        "--isolation",
        default="read_committed",
        metavar="LEVEL",
        help="read_committed or read_uncommitted (default: read_committed)",
    )
    parser.add_argument(
        "--examples",
        type=whole_number,
        default=5,
        metavar="N",
        help="how many examples of each kind of fault to show (default: 5)",
    )
    parser.add_argument("--html", type=path, metavar="FILE", help="write the result as a page too")
    parser.add_argument(
        "--option",
        type=_setting,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of Spark's Kafka source, such as minPartitions; may be repeated",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--spark-master",
        default="local[*]",
        metavar="URL",
        help="where to run Spark: local[N], spark://..., yarn, k8s://... (default: local[*])",
    )
    where.add_argument(
        "--spark-remote",
        metavar="URL",
        help="run on this Spark Connect server, sc://host:port, which must have the connector",
    )
    parser.add_argument(
        "--spark-config",
        type=_setting,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of Spark; may be repeated",
    )


def _serve(parsed: argparse.Namespace) -> int:
    with _signals_in_a_pipe() as signals, _cluster(parsed) as kafka:
        with _metrics_page(kafka, parsed.metrics_port) as metrics:
            if metrics:
                print(f"METRICS {metrics}")
            _print_addresses(kafka.listeners, kafka.advertised)
            _print_client_files(kafka, list(_users(parsed)))
            _await_end(signals, stay=parsed.stay)
        _end_in_any_case()
    return 0


@contextmanager
def _metrics_page(kafka: "EmbeddedKafka", port: int | None) -> Iterator[str | None]:
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


def _print_client_files(kafka: "EmbeddedKafka", users: Sequence[str]) -> None:
    """A line with a user's properties file for each of them, and one with the certificates."""
    if kafka.certificates_dir is not None:
        print(f"CERTIFICATES {kafka.certificates_dir}")
    for user in users:
        print(f"CLIENT.{user} {kafka.java_properties(user)}")
    sys.stdout.flush()


def _print_addresses(listeners: Mapping[str, str], advertised: Mapping[str, str]) -> None:
    """A line for the first listener, and one with its name for each further one; both kinds."""
    first = next(iter(listeners))
    for word, addresses in (("BOOTSTRAP", listeners), ("ADVERTISED", advertised)):
        for name, address in addresses.items():
            print(f"{word if name == first else f'{word}.{name}'} {address}")
    sys.stdout.flush()


def _up(parsed: argparse.Namespace) -> int:
    code = 0
    try:
        with _exit_on_signals(), _cluster(parsed) as kafka:
            servers = kafka.bootstrap_servers
            added = {"EMBEDKAFKA_BOOTSTRAP": servers, "KAFKA_BOOTSTRAP_SERVERS": servers}
            for name, addresses in list(kafka.listeners.items())[1:]:
                added[f"EMBEDKAFKA_BOOTSTRAP_{re.sub('[^A-Z0-9]', '_', name)}"] = addresses
            with _metrics_page(kafka, parsed.metrics_port) as metrics:
                if metrics:
                    added["EMBEDKAFKA_METRICS"] = metrics
                code = _run_command(parsed.command, {**os.environ, **added})
            _end_in_any_case()
    except EmbedKafkaError as error:
        if code == 0:
            raise
        return _complain(str(error), code=code)
    return code


def _broker(parsed: argparse.Namespace) -> int:
    from embedkafka.cluster.broker_process import BrokerProcess

    logging.getLogger("embedkafka").setLevel(logging.INFO)
    broker = BrokerProcess(
        zookeeper=parsed.zookeeper,
        broker_id=parsed.id,
        host=parsed.host,
        port=parsed.port,
        advertise=parsed.advertise,
        config=_settings(parsed),
        data_dir=parsed.data_dir,
    )
    with _signals_in_a_pipe() as signals, broker:
        _print_addresses(broker.listeners, broker.advertised)
        _await_end(signals, stay=parsed.stay)
        _end_in_any_case()
    return 0


def _dump_log(parsed: argparse.Namespace) -> int:
    from embedkafka.cluster import log_dump

    show = log_dump.as_json if parsed.json else log_dump.as_text
    damaged = False
    try:
        for finding in log_dump.dump_log(parsed.path):
            damaged = damaged or finding.kind == "problem"
            print(show(finding))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe, and Python must not try to flush again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1 if damaged else 0


def _spark_jars(parsed: argparse.Namespace) -> int:
    from embedkafka.spark.connector.jars import require_connector
    from embedkafka.spark.connector.packages import require_packages

    connector = require_connector().jars
    for jar in (*connector, *require_packages(parsed.package, given=connector)):
        print(jar, flush=True)
    if parsed.archive:
        from embedkafka.cluster.spark_training import make_class_archive

        make_class_archive(parsed.package)
    return 0


def _spark_jvm(parsed: argparse.Namespace) -> int:
    from embedkafka.spark.warm.home import default_home, find_kept, stop_kept

    home = default_home()
    for line in stop_kept(home) if parsed.action == "stop" else map(str, find_kept(home)):
        print(line, flush=True)
    return 0


def _audit(parsed: argparse.Namespace) -> int:
    from embedkafka.spark.delivery.command import audit_topics, client_options
    from embedkafka.terminal.client import require_bootstrap

    try:
        settings = client_options(parsed.client_config)
        delivery = audit_topics(
            bootstrap_servers=require_bootstrap(
                parsed.bootstrap, settings.get("kafka.bootstrap.servers")
            ),
            source=parsed.source,
            sink=parsed.sink,
            key=parsed.key or ["key"],
            value=parsed.value or ["value"],
            ordered=False if parsed.unordered else None,
            isolation=parsed.isolation,
            examples=parsed.examples,
            options={**settings, **dict(parsed.option)},
            spark_master=parsed.spark_master,
            spark_remote=parsed.spark_remote,
            spark_config=dict(parsed.spark_config),
        )
        if parsed.html is not None:
            delivery.to_html(parsed.html)
    except (EmbedKafkaError, OSError) as error:
        return _complain(str(error), code=2)  # 1 is for a delivery that was refuted
    print(delivery.table())
    return 0 if delivery.ok else 1


def _cluster(parsed: argparse.Namespace) -> "EmbeddedKafka":
    from embedkafka import EmbeddedKafka
    from embedkafka.runtime.problems import Problems

    problems = Problems()
    settings = problems.attempt(lambda: _settings(parsed))
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
        )
    )
    problems.raise_all()
    assert kafka is not None
    return kafka


def _topics(parsed: argparse.Namespace) -> "dict[str, TopicSpec]":
    from embedkafka.cluster.config import TopicSpec
    from embedkafka.runtime.problems import Problems

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
        users=_users(parsed),
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


def _users(parsed: argparse.Namespace) -> dict[str, str]:
    file = parsed.users_file
    from_file = _pairs(file, "--users-file", lambda: parse_properties(file.read_text("utf-8")))
    return {**from_file, **dict(parsed.user)}


def _settings(parsed: argparse.Namespace) -> dict[str, str]:
    file = parsed.properties
    given = _pairs(file, "--properties", lambda: read_properties(file))
    known = {name: value for name, value in given.items() if _is_known(name, file)}
    return {**known, **dict(parsed.config)}


def _pairs(file: Path | None, option: str, read: Callable[[], dict[str, str]]) -> dict[str, str]:
    if file is None:
        return {}
    try:
        return read()
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {option} {file}: {error}") from error


def _is_known(name: str, file: Path) -> bool:
    """Whether it is a broker setting. Like Kafka, warns of others: plug-ins read the same file."""
    from embedkafka.server.config.broker import is_known_setting

    if is_known_setting(name):
        return True
    _LOG.warning("%s: ignoring unknown broker setting %s", file, name)
    return False


def _parse(arguments: list[str]) -> argparse.Namespace:
    """Also takes what follows `--`, for `up` and `produce`, and values that follow options.

    argparse takes values where the first of them is, or none is, and no others.
    """
    at = arguments.index("--") if "--" in arguments else len(arguments)
    own, rest = arguments[:at], arguments[at + 1 :]
    parser = _parser()
    parsed, further = parser.parse_known_args(own)
    if "values" in parsed and not any(value.startswith("-") for value in further):
        parsed.values += [*further, *rest]
        return parsed
    if further:
        parser.error(f"unrecognized arguments: {' '.join(further)}")
    if bool(rest) != (parsed.run is _up):
        parser.error("only `up` takes a command, and needs one: embedkafka up [options] -- command")
    parsed.command = rest
    return parsed


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key.strip(), value.strip()


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
    name, colon, setting = text.partition(":")
    if not name or not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME:KEY=VALUE")
    return name, _setting(setting)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _await_end(signals: int, *, stay: bool) -> None:
    """Returns on a signal or when stdin closes; ignores what arrives on stdin."""
    if stay:
        select.select([signals], [], [])
        return
    # Without a stdin, descriptor 0 is something else by now, perhaps our pipe.
    while sys.stdin is not None:
        ready, _, _ = select.select([signals, _STDIN], [], [])
        if signals in ready:
            return
        if not os.read(_STDIN, 65_536):
            break
    print("embedkafka: stdin closed, ending (--stay keeps running)", file=sys.stderr)


def _end_in_any_case() -> None:
    """Exits with code 1 and all stacks if the cluster has not ended in two minutes.

    A cluster gives up on its own threads after seconds; this covers everything else.
    """
    faulthandler.dump_traceback_later(_LONGEST_END_S, exit=True, file=_STDERR)


@contextmanager
def _signals_in_a_pipe() -> Iterator[int]:
    """A descriptor that becomes readable on the first signal to end; a second signal kills.

    `select` can wait for a pipe and for stdin at once, but not for a Python signal handler.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    wakeup_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    before = {number: signal.signal(number, _die_of_the_next) for number in _ENDING_SIGNALS}
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(wakeup_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)


def _die_of_the_next(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)


@contextmanager
def _exit_on_signals() -> Iterator[None]:
    """Turns SIGTERM and SIGHUP into an orderly exit, as Python does with SIGINT."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, _exit) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _run_command(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Runs the command, forwards signals to it, and returns its exit code.

    Without a terminal, as in CI, the command and all that it starts are a process group. The group
    gets the signals, and none of it outlives `up`, however that ends. On a terminal the group is
    ours, as for any shell command, so that a debugger can read from it.

    A signal that arrives while the command starts is kept for it.
    """
    group = hasattr(os, "killpg") and not os.isatty(_STDIN)
    child: subprocess.Popen[bytes] | None = None
    arrived: deque[int] = deque()
    forwarded: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        if child is not None and number == signal.SIGINT and _terminal_interrupts_both():
            return
        arrived.append(number)
        forward()

    def forward() -> None:
        """Sends the command what has arrived, once it runs."""
        while child is not None and arrived:
            with suppress(IndexError):  # the handler of another signal was quicker
                number = arrived.popleft()
                forwarded.append(number)
                if group:
                    _signal_group(child.pid, number)
                else:
                    child.send_signal(number)

    before = {number: signal.signal(number, on_signal) for number in _FORWARDED_SIGNALS}
    try:
        try:
            child = subprocess.Popen(command, env=environment, process_group=0 if group else None)
        except OSError as error:
            print(f"embedkafka: cannot run {command[0]}: {error.strerror}", file=sys.stderr)
            return _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
        forward()
        with _watched(child.pid) if group else nullcontext():
            code = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if child is not None and group and forwarded:
            _signal_group(child.pid, signal.SIGKILL)  # what did not end with the command
    return code if code >= 0 else 128 - code


def _signal_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # all of it has ended
        os.killpg(group, number)


@contextmanager
def _watched(group: int) -> Iterator[None]:
    """Kills the group if this process ends first, even by SIGKILL.

    A shell waits for the end of a pipe that only this process holds open.
    """
    reader, writer = os.pipe()
    watcher = subprocess.Popen(
        ["/bin/sh", "-c", f"read -r line; kill -KILL -{group}"],
        stdin=reader,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(reader)
    try:
        yield
    finally:
        watcher.kill()
        watcher.wait()
        os.close(writer)


def _terminal_interrupts_both() -> bool:
    """Whether Ctrl-C reaches the command too, because it is in our foreground process group."""
    with suppress(OSError):
        return os.tcgetpgrp(_STDIN) == os.getpgrp()
    return False


def _complain(reason: str, *, code: int) -> int:
    print(f"embedkafka: {reason}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
