"""What `--decode` names: a function of the user's, or the file of an Avro schema."""

import importlib
import os
import sys
from functools import reduce
from pathlib import Path
from typing import Any, Final

from embedkafka.cluster.clients.decoding import Decode, reason_of, require_decoder
from embedkafka.runtime.failures import ConfigError

_SCHEMAS: Final = (".avsc", ".json")


def load_decoder(given: str) -> Decode | None:
    """The decoder that `module:function` or `schema.avsc` names.

    Modules are looked for in the current directory too.

    Raises:
        ConfigError: there is no such module, function or file, or it is not a decoder.
    """
    module, _, function = given.partition(":")
    is_schema = given.endswith(_SCHEMAS)
    if not is_schema and not (module and function):
        raise ConfigError(
            f"--decode must be module:function, or the path of an Avro schema that ends in .avsc, "
            f"got {given!r}"
        )
    if is_schema:
        return require_decoder(Path(given))
    try:
        found = _find(module, function)
    except Exception as error:  # whatever the module raises when it is imported
        raise ConfigError(f"cannot use --decode {given}: {reason_of(error)}") from error
    return require_decoder(found)


def _find(module: str, function: str) -> Any:
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    return reduce(getattr, function.split("."), importlib.import_module(module))
