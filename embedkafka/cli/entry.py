"""`embedkafka serve | up | broker | ...`: a cluster for any program, and tools around it.

Exit codes: 0 for success, 1 if the cluster failed, did not end or a log is damaged, 2 for misuse.
`up` exits with the code of its command, or 128 + n if signal n ended it.
Not here: what a command takes and does, which the module of its name says.
"""

import argparse
import faulthandler
import logging
import re
import signal
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn, TextIO

from embedkafka.cli import (
    audit,
    broker,
    completion,
    doctor,
    dump_log,
    groups,
    produce,
    serve,
    spark_jars,
    spark_jvm,
    tail,
    topics,
    ui,
    up,
)
from embedkafka.cli.output import complain
from embedkafka.runtime.failures import (
    ConfigError,
    ConfigWarning,
    EmbedKafkaError,
    InvalidArgument,
)

#: The commands, in the order of `--help`.
_COMMANDS: Final = (
    *(serve, up, broker),
    *(topics, groups, tail, produce, ui, doctor),
    *(dump_log, spark_jars, spark_jvm, audit, completion),
)
_WITH_ARGUMENTS: Final = ("serve", "up", "broker")
"""The commands whose options stand for arguments of `EmbeddedKafka` and the like."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand and returns the exit code."""
    parsed = parse(sys.argv[1:] if arguments is None else list(arguments))
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        with _warnings_as_lines():
            code: int = parsed.run(parsed)
    except (ConfigError, InvalidArgument) as error:
        return complain(in_options(str(error)), code=2)
    except (EmbedKafkaError, OSError) as error:
        return complain(str(error), code=1)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        faulthandler.cancel_dump_traceback_later()
    return code


def command_line() -> argparse.ArgumentParser:
    """The parser of everything: `tests/tidy` writes a page of the documentation from it."""
    parser = argparse.ArgumentParser(
        prog="embedkafka", description="A real multi-broker Kafka cluster inside one process."
    )
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for command in _COMMANDS:
        command.add(commands)
    return parser


def parse(arguments: list[str]) -> argparse.Namespace:
    """Also takes what follows `--`, and values that follow options.

    argparse takes values where the first of them is, or none is, and no others.
    """
    parser = command_line()
    if not arguments:
        parser.print_help(sys.stderr)
        parser.exit(2)
    at = arguments.index("--") if "--" in arguments else len(arguments)
    own, rest = arguments[:at], arguments[at + 1 :]
    if own[:1] not in (["up"], ["produce"], ["topics"]):
        parsed, further = parser.parse_known_args(arguments)
        if further:
            hint = "; only `up` takes a command" if rest else ""
            parser.error(f"unrecognized arguments: {' '.join(further)}{hint}")
        return parsed
    parsed, further = parser.parse_known_args(own)
    if "values" in parsed and not any(value.startswith("-") for value in further):
        parsed.values += [*further, *rest]
        return parsed
    if further:
        parser.error(f"unrecognized arguments: {' '.join(further)}")
    if not rest:
        parser.error("`up` needs a command: embedkafka up [options] -- command")
    parsed.command = rest
    return parsed


def in_options(text: str) -> str:
    """A message about arguments of Python, in which they are options of the command.

    Messages write arguments in backticks, or at their beginning.
    """
    options = _options()
    names = "|".join(options)
    argument = rf"`({names})`|(?<![\w.-])({names})(?= must (?:be|have) )"
    return re.sub(argument, lambda found: options[found[1] or found[2]], text)


def _options() -> Mapping[str, str]:
    """The options by the names of the arguments that they stand for."""
    commands = command_line()._subparsers
    assert commands is not None
    choices = commands._group_actions[0].choices
    assert isinstance(choices, Mapping)
    return {
        action.dest: action.option_strings[0]
        for name in _WITH_ARGUMENTS
        for action in choices[name]._actions
        if action.option_strings
    }


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
                text = in_options(str(message))
                print(f"embedkafka: warning: {text}", file=sys.stderr, flush=True)
            else:
                show(message, category, filename, lineno, file, line)

        warnings.simplefilter("always", ConfigWarning)
        warnings.showwarning = show_line
        try:
            yield
        finally:
            warnings.showwarning = show  # some Pythons without the GIL restore the filters only


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str, **given: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **given)

    def __call__(self, parser: argparse.ArgumentParser, *arguments: object) -> NoReturn:
        from embedkafka.cli.checkups import version_of

        print(f"embedkafka {version_of('embedkafka') or 'from its sources'}")
        parser.exit()
