"""PySpark on a JVM that it has not started, and that goes on when PySpark is done with it.

Owner: the thread inside `local_session`.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from embedkafka.runtime.forks import Owner
from embedkafka.spark.connector.progress import Progress
from embedkafka.spark.warm.fitness import session_variables
from embedkafka.spark.warm.lease import Lease
from embedkafka.spark.warm.traces import keep_state, load_pools, restore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PORT: Final = "PYSPARK_GATEWAY_PORT"
_SECRET: Final = "PYSPARK_GATEWAY_SECRET"

_LONGEST_RESTORE_S: Final = 30.0
_PROXIES_PER_SESSION: Final = 1 << 24


@contextmanager
def attached(lease: Lease, progress: Progress) -> Iterator[None]:
    """PySpark uses the leased JVM in a `with` block, which stops the SparkContext; gives it back.

    A JVM that cannot be given back whole is thrown away, with a line.
    """
    from pyspark import SparkContext

    owner = Owner()
    why_dropped: str | None = "it did not take a session"
    try:
        gateway = _connect(lease)
        SparkContext._ensure_initialized(gateway=gateway)  # first: PySpark's errors ask the JVM
        if lease.session == 1:
            keep_state(gateway)
        try:
            yield
        finally:
            if owner.is_here:
                why_dropped = _give_back(lease, gateway)
                with SparkContext._lock:
                    SparkContext._gateway = SparkContext._jvm = None
                _disconnect(gateway)
    finally:
        if owner.is_here:
            lease.drop()
            if why_dropped:
                progress(f"Spark's JVM {lease.jvm} ends: {why_dropped}")


@contextmanager
def guest(session: "SparkSession") -> Iterator[None]:
    """A session in a leased JVM, until it is about to stop.

    Python workers get the variables of this process. Queries stop first: they would go on.
    """
    owner = Owner()
    session.sparkContext.environment.update(session_variables(os.environ))
    try:
        yield
    finally:
        if owner.is_here:
            with suppress(Exception):  # the JVM has died, or the test has stopped the SparkContext
                for query in session.streams.active:
                    query.stop()
                load_pools(session.sparkContext._gateway)


def _give_back(lease: Lease, gateway: Any) -> str | None:
    """Returns why the JVM cannot have another session. Any: untyped in py4j."""
    with lease.deadline(_LONGEST_RESTORE_S):
        try:
            return lease.give_back(restore(gateway))
        except Exception as error:  # py4j's, ours, or the keeper's end
            return f"it was not left whole: {str(error).partition(chr(10))[0]}"


def _connect(lease: Lease) -> Any:
    """A gateway, as PySpark itself connects to a JVM that runs. Any: untyped in py4j."""
    from pyspark.java_gateway import launch_gateway

    launch: Any = launch_gateway  # untyped in PySpark
    os.environ.update({_PORT: str(lease.port), _SECRET: lease.secret})
    try:
        gateway = launch()
    finally:
        del os.environ[_PORT], os.environ[_SECRET]
    # Java tells Python, by id, of functions that it no longer needs: also of earlier sessions'.
    gateway.gateway_property.pool.next_id = lease.session * _PROXIES_PER_SESSION
    return gateway


def _disconnect(gateway: Any) -> None:
    """Unlike py4j's own shutdown, leaves the server in the JVM alone. Any: untyped in py4j."""
    from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER

    client = gateway._gateway_client
    client.is_connected = False  # objects that Python drops later are gone already
    if server := gateway.__dict__.get("_callback_server"):
        for connection in list(server.connections):
            with suppress(OSError, AttributeError):  # it has ended by itself
                connection.socket.shutdown(socket.SHUT_RDWR)  # its thread reads, and would go on
        server.shutdown()
    client.close()
    waiting = getattr(client, "finalizer_deque", None)
    if waiting is not None:
        waiting.appendleft(SHUTDOWN_FINALIZER_WORKER)
