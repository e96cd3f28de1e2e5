"""Whether a session wants a warm JVM. One that does not imports nothing else of this package."""

from collections.abc import Mapping
from typing import Final

from embedkafka.runtime.failures import ConfigError

ENVIRONMENT_VARIABLE: Final = "EMBEDKAFKA_SPARK_WARM"
_WORDS: Final = {"": False, "0": False, "1": True}


def wants_warm(given: bool | None, environ: Mapping[str, str]) -> bool:
    """What the caller wants, or else the environment."""
    if given is not None:
        return given
    word = environ.get(ENVIRONMENT_VARIABLE, "")
    if word not in _WORDS:
        raise ConfigError(f"{ENVIRONMENT_VARIABLE} must be 1 or 0, not {word!r}")
    return _WORDS[word]
