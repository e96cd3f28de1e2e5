"""`embedkafka completion`: what a shell completes the command with."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from embedkafka.cli.output import print_lines

if TYPE_CHECKING:
    from embedkafka.cli.options import Subcommands

_BASH, _ZSH = _SHELLS = ("bash", "zsh")
_IN_ZSH: Final = "autoload -U +X bashcompinit && bashcompinit"
_HEAD: Final = """_embedkafka() {
  local word=${COMP_WORDS[COMP_CWORD]} words=
  case $COMP_CWORD:${COMP_WORDS[1]}:$word in"""
_FOOT: Final = """  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _embedkafka embedkafka"""


def add(commands: "Subcommands") -> None:
    parser = commands.add_parser(
        "completion",
        help="print what a shell completes this command with",
        description='In ~/.bashrc or ~/.zshrc: `eval "$(embedkafka completion bash)"`, or zsh.',
    )
    parser.add_argument("shell", choices=_SHELLS, metavar="{bash,zsh}", help="the shell")
    parser.set_defaults(
        run=lambda parsed: print_lines(lambda: _script(parsed.shell, commands.choices))
    )


def _script(shell: str, commands: dict[str, argparse.ArgumentParser]) -> Iterator[str]:
    """Names of commands, then their options; where neither fits, the shell completes files."""
    if shell == _ZSH:
        yield _IN_ZSH
    yield _HEAD
    yield f'    1:*) words="{" ".join(commands)}" ;;'
    for name, parser in commands.items():
        yield f'    *:{name}:-*) words="{" ".join(sorted(parser._option_string_actions))}" ;;'
    yield _FOOT
