"""A job that another process cannot run is refused before anything runs."""

import json
import threading
from typing import Any, cast

import pytest

from embedkafka.explore.driver_process import PackedJob
from embedkafka.explore.options import Options
from embedkafka.explore.schedule import Moment
from embedkafka.runtime.failures import ConfigError

ARGUMENTS = {"app_name": "shop", "jars": ["a.jar"], "packages": [], "config": {"a": "b"}}


class FakeSession:
    """A session as far as its settings go."""

    def __init__(self, **settings: str) -> None:
        self._sc = self
        self._settings = settings

    def getConf(self) -> dict[str, str]:
        return self._settings


def packed(job: Any, **settings: str) -> PackedJob:
    return PackedJob(cast(Any, FakeSession(**settings)), job)


def test_a_closure_and_the_arguments_of_the_session_go_along() -> None:
    import pickle

    settings = {"spark.embedkafka.session": json.dumps(ARGUMENTS)}
    options = Options(bootstrap_servers="localhost:9092", directory="/data", topics={"a": "b"})
    factor = 3

    job = packed(lambda spark, options: spark * factor, **settings)

    _, arguments, sent, given, moment = pickle.loads(job.message(options, Moment.WRITTEN))
    assert arguments == ARGUMENTS
    assert pickle.loads(sent)(2, None) == 6
    assert (given, moment) == (options, Moment.WRITTEN)


def test_a_session_of_another_make_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"the `spark` fixture on a local master, or of local_se"):
        packed(lambda spark, options: None)
    with pytest.raises(ConfigError, match="fixture"):
        PackedJob(cast(Any, object()), lambda spark, options: None)


def test_a_job_that_holds_what_cannot_be_pickled_is_refused() -> None:
    lock = threading.Lock()

    with pytest.raises(ConfigError, match=r"cannot be sent there: .*lock"):
        packed(lambda spark, options: lock, **{"spark.embedkafka.session": json.dumps(ARGUMENTS)})
