"""docs/reference/command.md: the `embedkafka` command, from its argument parser."""

import argparse
from collections.abc import Iterator, Mapping

from embedkafka.cli.entry import command_line
from tests.tidy.pages.tables import table

HEAD = """# The embedkafka command

`make docs` writes this page from the command's argument parser. The tests check that it is current.

| subcommand | what it does |
|---|---|
"""

FOOT = """
## Kafka's own tools

The command-line tools of Apache Kafka work on clusters of embedkafka, too; the tests run them on
both and compare every line. They do what the command does not:

| to | run |
|---|---|
| elect preferred leaders, or unclean ones | `kafka-leader-election` |
| move replicas to other brokers or log directories | `kafka-reassign-partitions` |
| see what each log directory holds | `kafka-log-dirs` |
| change settings and quotas at run time | `kafka-configs` |
| look into transactions and producers | `kafka-transactions` |

In a test, `topic.move_leader(to=2)` makes a broker the leader.
`kafka.java_properties()` writes the `--command-config` of a secured cluster.

## Exit codes

| code | meaning |
|---|---|
| 0 | a good end |
| 1 | the cluster failed or did not end, `dump-log` found damage, `audit` refuted delivery |
| 2 | misuse: a wrong option or setting; `audit` could not compare |
| other | the exit code of the command that `up` ran; 128 + *n* if signal *n* ended it |
| 126, 127 | `up` could not run its command, or not find it |

If some part of a cluster does not end within two minutes, `serve`, `up` and `broker` print the
stacks of all threads and exit with 1.

## Signals and stdin

`serve` and `broker` end on SIGINT, on SIGTERM, or when their stdin closes; `--stay` ignores stdin.
A second signal ends them at once. `up` passes SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2
on to its command.

## A server.properties file

`--properties` takes a `server.properties` of Apache Kafka as it is, also one
[for KRaft](../how-to/without-pytest.md#files-for-kraft). Settings that have no effect here, such as
`log.dirs`, and unknown names produce a warning on stderr. `--config` overrides the file, and
`--host`, `--port` and `--advertise`
[override its listeners](../how-to/without-pytest.md#addresses-that-clients-can-reach).
With `--user`, its listeners that ask for SASL get users: passwords of PLAIN are added to its login
modules, credentials of SCRAM to the store.
"""


def render() -> str:
    subparsers = _subparsers(command_line())
    summary = "".join(
        f"| [`{name}`](#embedkafka-{name}) | {_help(name)} |\n" for name in subparsers
    )
    sections = (_section(name, parser) for name, parser in subparsers.items())
    return HEAD + summary + "".join(sections) + FOOT


def _subparsers(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    return _subparsers_action(parser).choices


def _subparsers_action(
    parser: argparse.ArgumentParser,
) -> "argparse._SubParsersAction[argparse.ArgumentParser]":
    (action,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return action


def _help(name: str) -> str:
    (choice,) = (a for a in _subparsers_action(command_line())._choices_actions if a.dest == name)
    return choice.help or ""


def _section(name: str, parser: argparse.ArgumentParser) -> str:
    options = [a for a in parser._actions if not isinstance(a, argparse._HelpAction)]
    required = [a for a in options if _is_required(a)]
    words = ["embedkafka", name]
    words += [_shown(a) for a in required if a.option_strings]
    words += ["[options]"] * any(a.option_strings and not _is_required(a) for a in options)
    words += [_shown(a) for a in required if not a.option_strings]
    words += [f"[{_shown(a)} ...]" for a in options if a.nargs == "*" and not a.option_strings]
    words += ["-- command [argument ...]"] * (name == "up")
    description = parser.description or ""
    rows = table(["option", "meaning"], _rows(options)) if options else ""
    return f"\n## embedkafka {name}\n\n```text\n{' '.join(words)}\n```\n\n{description}\n" + (
        f"\n{rows}" if rows else ""
    )


def _rows(options: list[argparse.Action]) -> Iterator[tuple[str, ...]]:
    for action in options:
        also = "".join(f", `{name}`" for name in action.option_strings[1:])
        yield (
            f"`{_shown(action)}`{also}",
            (action.help or "") + " (required)" * _is_required(action),
        )


def _is_required(action: argparse.Action) -> bool:
    """argparse also calls a list required that may be empty."""
    return action.required and action.nargs not in ("*", "?")


def _shown(action: argparse.Action) -> str:
    name = " ".join(action.option_strings[:1])
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    return f"{name} {metavar}".strip()
