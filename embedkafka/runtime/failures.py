"""Failures of background threads, kept until the test checks for them.

Owner: `Failures._lock` (leaf). One `Failures` belongs to one cluster; every thread of that cluster
records into it, and `EmbeddedKafka.check()` and `close()` raise what was recorded.
Not here: errors that belong to a client's request; those are `protocol.errors.ApiError`.
"""

import logging
import threading
import traceback

_LOG = logging.getLogger(__name__)

_KEPT = 100


class EmbedKafkaError(Exception):
    """Base class of the errors this library raises in user code."""


class ConfigError(EmbedKafkaError):
    """A setting does not exist, or its value is invalid.

    `problems` has a text for each, if there are several.
    """

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        count = len(problems)
        listed = "".join(f"\n- {problem}" for problem in problems)
        super().__init__(
            problems[0] if count == 1 else f"{count} problems with the configuration:{listed}"
        )


class InvalidArgument(EmbedKafkaError, ValueError):
    """An argument that a method cannot use; the message says what was given and what is allowed."""


class UndecodableMessage(EmbedKafkaError, ValueError):
    """A record whose value is not what the test takes it for, such as JSON."""


class ConfigWarning(UserWarning):
    """An accepted setting has no effect; the text says why."""


class ClusterClosed(EmbedKafkaError):
    """The cluster or the broker is not running."""


class DirectoryInUse(EmbedKafkaError):
    """Another cluster or broker uses the directory; the message says which process."""


class AwaitTimeout(EmbedKafkaError):
    """A condition did not become true in time; the message shows the last state seen."""


class QueryFailed(AwaitTimeout):
    """A wait for records that will not come: the query or script that should write them has failed.

    `exception` is Spark's or the script's; the message has the essence of it.
    """

    def __init__(self, message: str, exception: BaseException) -> None:
        super().__init__(message)
        self.exception = exception


class BackgroundFailure(EmbedKafkaError):
    """One of the cluster's own threads failed: a bug in embedkafka, never the test's fault."""


class Failures:
    """Collects failures of background threads, the first hundred of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recorded: list[tuple[str, BaseException]] = []

    def record(self, where: str, error: BaseException) -> None:
        """Keeps `error` for `check()` and logs its traceback immediately."""
        _LOG.error("%s failed: %r", where, error, exc_info=error)
        with self._lock:
            if len(self._recorded) < _KEPT:
                self._recorded.append((where, error))

    def check(self) -> None:
        """Raises `BackgroundFailure` with every failure since the last check."""
        with self._lock:
            recorded, self._recorded = self._recorded, []
        if not recorded:
            return
        parts = [
            f"{where}: " + "".join(traceback.format_exception(error)).rstrip()
            for where, error in recorded
        ]
        count = len(recorded)
        raise BackgroundFailure(
            f"{count} background failure{'s' if count > 1 else ''}\n" + "\n".join(parts)
        ) from recorded[0][1]


for _public in (
    EmbedKafkaError,
    ConfigError,
    InvalidArgument,
    UndecodableMessage,
    ConfigWarning,
    ClusterClosed,
    DirectoryInUse,
    AwaitTimeout,
    QueryFailed,
    BackgroundFailure,
):
    # Where users import it from, so that pytest's one-line summaries have room for the message.
    _public.__module__ = "embedkafka"
