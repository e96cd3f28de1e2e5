"""A job's exception is shown without the wrapping of Spark and py4j."""

import pytest

from embedkafka.explore.job_failures import cause_text

FOREACH_BATCH = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: \
[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function. Reason: An \
exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/venv/lib/python3.11/site-packages/pyspark/sql/utils.py", line 162, in call
    raise e
  File "/home/me/shop/job.py", line 12, in save
    raise ValueError("no such table")
ValueError: no such table
"""


class StreamingQueryException(Exception):
    """Resembles PySpark's exception, including the module it claims."""


StreamingQueryException.__module__ = "pyspark.errors.exceptions.captured"


def test_an_exception_of_foreach_batch_is_its_own_traceback() -> None:
    assert cause_text(StreamingQueryException(FOREACH_BATCH)) == (
        "Traceback (most recent call last):\n"
        '  File "/home/me/shop/job.py", line 12, in save\n'
        '    raise ValueError("no such table")\n'
        "ValueError: no such table"
    )


def test_an_exception_of_spark_has_no_frames_of_java() -> None:
    error = StreamingQueryException(
        "[STREAM_FAILED] terminated with exception: Set(gone-0) are gone\n"
        "\tat org.apache.spark.Foo$.bar(Foo.scala:12)\n"
        "Driver stacktrace:\n"
        "\t... 12 more\n"
    )
    assert cause_text(error) == ("[STREAM_FAILED] terminated with exception: Set(gone-0) are gone")


def test_an_exception_of_the_job_itself_has_its_traceback() -> None:
    with pytest.raises(KeyError) as raised:
        dict[str, int]()["sku"]
    text = cause_text(raised.value)
    assert text.startswith("Traceback (most recent call last):")
    assert text.endswith("KeyError: 'sku'")
