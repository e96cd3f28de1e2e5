"""Queries in words."""

from typing import Any

from embedkafka.spark.report import clean_exception, progress_table, shorten_log

PLAN = """
=== Streaming Query ===
Identifier: bad [id = 1, runId = 2]
Logical Plan:
~WriteToMicroBatchDataSource MemorySink
"""


def batch(number: int, **other: Any) -> dict[str, Any]:
    return {
        "batchId": number,
        "numInputRows": 3,
        "durationMs": {"triggerExecution": 120},
        "stateOperators": [],
        "sources": [{"endOffset": '{"orders":{"1":2,"0":10}}'}],
        "sink": {"numOutputRows": -1},
        **other,
    }


def test_progress_is_a_table_with_a_line_for_each_batch() -> None:
    with_state = batch(
        10,
        stateOperators=[{"numRowsTotal": 4}, {"numRowsTotal": 1}],
        eventTime={"watermark": "2026-01-01T00:00:00.000Z"},
        sources=[{"endOffset": {"orders": {"0": 11}}}, {"endOffset": 7}],
        sink={"numOutputRows": 2},
    )
    assert progress_table([batch(9), with_state]).splitlines() == [
        "batch  rows in  rows out  ms   state rows  watermark                 read up to",
        "9      3                  120                                        "
        "orders-0:10 orders-1:2",
        "10     3        2         120  5           2026-01-01T00:00:00.000Z  orders-0:11, 7",
    ]
    assert progress_table([]) == "no batch yet"


def test_progress_reads_offsets_in_every_form_of_pyspark() -> None:
    forms: list[Any] = [{"orders": {"0": 1}}, '{"orders":{"0":1}}', "{'orders': {'0': 1}}"]
    for form in forms:
        (_, line) = progress_table([batch(0, sources=[{"endOffset": form}])]).splitlines()
        assert line.endswith("orders-0:1")
    (_, line) = progress_table([batch(0, sources=[{"endOffset": "shard 1"}])]).splitlines()
    assert line.endswith("shard 1")


def test_rows_are_counted_by_source_if_the_batch_does_not_say() -> None:
    sources = [{"endOffset": None, "numInputRows": count} for count in (2, 5)]
    without = batch(0, sources=sources)
    del without["numInputRows"]
    assert progress_table([without]).splitlines()[1].split()[:2] == ["0", "7"]


def test_an_exception_loses_its_plan() -> None:
    assert clean_exception(f"[DIVIDE_BY_ZERO] no{PLAN}") == "[DIVIDE_BY_ZERO] no"


def test_of_a_python_function_the_users_frames_stay() -> None:
    text = f"""Raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/site-packages/py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/site-packages/pyspark/sql/utils.py", line 165, in call
    raise e
  File "/site-packages/embedkafka/spark/scripts/spark_patches.py", line 236, in for_script
    return func(*batch)
           ^^^^^^^^^^^^
  File "/jobs/revenue.py", line 19, in write
    insert(rows)
ValueError: in the sink
{PLAN}"""
    assert clean_exception(text).splitlines() == [
        "Traceback (most recent call last):",
        '  File "/jobs/revenue.py", line 19, in write',
        "    insert(rows)",
        "ValueError: in the sink",
    ]


def test_of_an_executors_failure_javas_frames_go() -> None:
    text = f"""Job aborted: PythonException: Traceback (most recent call last):
  File "/jobs/revenue.py", line 27, in price
KeyError: 'plum'

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handle(PythonRunner.scala:581)
\tat java.base/java.lang.Thread.run(Thread.java:840)
\t... 3 more

Driver stacktrace:{PLAN}"""
    assert clean_exception(text).splitlines() == [
        "Traceback (most recent call last):",
        '  File "/jobs/revenue.py", line 27, in price',
        "KeyError: 'plum'",
    ]


def test_a_log_is_shown_without_javas_frames() -> None:
    frames = "\n".join(f"\tat org.apache.Some.thing(Some.scala:{n})" for n in range(50))
    log = f"WARN one\n{frames}\nCaused by: no\n{frames}"
    assert shorten_log(log) == "WARN one\nCaused by: no"
    assert shorten_log("\n".join(map(str, range(50))), lines=2) == "48\n49"
