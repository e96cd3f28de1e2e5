"""A `kafka` fixture whose clients log in, as the ini file or the command line says."""

from typing import Any

import pytest

INI = """
[pytest]
addopts = --kafka-brokers=1
kafka_security = sasl_ssl
kafka_user =
    alice:s3cret:of-alice
    job:s3cret-of-job
"""
TESTS = """
import pytest
from confluent_kafka.admin import AdminClient
from embedkafka import Security

def test_users_log_in(kafka):
    for user in ("alice", "job"):
        config = kafka.client_config(user)
        assert config["sasl.password"].startswith("s3cret")
        assert AdminClient(config).list_topics(timeout=30).brokers

def test_handles_log_in_by_themselves(kafka, kafka_topic):
    kafka_topic.send("x")
    assert [message.text for message in kafka_topic.read(1)] == ["x"]
    assert kafka.client_config()["security.protocol"].upper() == PROTOCOL

@pytest.mark.kafka(security=Security(protocol="SSL", users=["eve"]))
def test_a_mark_is_stronger(kafka):
    assert kafka.client_config("eve")["security.protocol"].upper() == "SSL"

@pytest.mark.kafka(security=None)
def test_a_mark_may_leave_it_out(kafka):
    assert list(kafka.client_config()) == ["bootstrap.servers"]
"""


@pytest.fixture(autouse=True)
def ini(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)


def test_the_ini_file_secures_the_cluster(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile(f"PROTOCOL = 'SASL_SSL'\n{TESTS}")
    result = run()
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["kafka: 1 broker in this process over SASL_SSL"])


def test_the_command_line_is_stronger(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile(f"PROTOCOL = 'SASL_PLAINTEXT'\n{TESTS}")
    result = run(
        "--kafka-security=sasl_plaintext", "--kafka-mechanism=plain", "--kafka-user=job:s3cret-new"
    )
    result.assert_outcomes(passed=4)


SEVERAL = """
import pytest

@pytest.mark.parametrize("mechanism", EXPECTED)
def test_users_log_in_with_each(kafka, mechanism):
    from confluent_kafka.admin import AdminClient

    config = kafka.client_config("alice", mechanism=mechanism)
    assert AdminClient(config).list_topics(timeout=30).brokers

def test_there_are_no_others(kafka):
    assert list(kafka.config.security.mechanisms) == EXPECTED
"""


def test_the_ini_file_may_name_several_mechanisms(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makeini(f"{INI}kafka_mechanism =\n    plain\n    scram-sha-256\n")
    pytester.makepyfile(f"EXPECTED = ['PLAIN', 'SCRAM-SHA-256']\n{SEVERAL}")
    run().assert_outcomes(passed=3)


def test_mechanisms_of_the_command_line_replace_those_of_the_ini_file(
    pytester: pytest.Pytester, run: Any
) -> None:
    pytester.makeini(f"{INI}kafka_mechanism = plain\n")
    pytester.makepyfile(f"EXPECTED = ['SCRAM-SHA-512', 'SCRAM-SHA-256']\n{SEVERAL}")
    options = ["--kafka-mechanism=scram-sha-512", "--kafka-mechanism=scram-sha-256"]
    run(*options).assert_outcomes(passed=3)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--kafka-security=tls"], "*protocol must be one of SSL, SASL_PLAINTEXT, SASL_SSL*"),
        (["--kafka-mechanism=md5"], "*mechanism must be one of PLAIN, SCRAM-SHA-256,*'MD5'*"),
        (["--kafka-security=ssl", "--kafka-mechanism=plain"], "*SSL has no mechanism*"),
        (["--kafka-xdist=shared", "-n1"], "*kafka_security is for a cluster in the process*"),
        (["--override-ini=kafka_security="], "*kafka_user and kafka_mechanism need *"),
    ],
)
def test_a_mistake_ends_the_run_at_once(
    pytester: pytest.Pytester, run: Any, arguments: list[str], complaint: str
) -> None:
    pytester.makepyfile("def test_it(kafka): pass")
    result = run(*arguments)
    assert result.ret != 0
    everything = [*result.outlines, *result.errlines]
    pytest.LineMatcher(everything).fnmatch_lines([complaint])
    assert not any("1 passed" in line for line in everything)


def test_a_failing_test_and_the_page_of_the_run_show_no_password(
    pytester: pytest.Pytester, run: Any
) -> None:
    pytester.makepyfile(
        """
        def test_it_fails(kafka, kafka_topic):
            kafka_topic.send("x")
            assert kafka_topic.read(2, timeout_s=0.5) == [kafka]
        """
    )
    result = run("--kafka-report=report.html", "-v", "--log-level=DEBUG", "-l")
    result.assert_outcomes(failed=1)
    page = (pytester.path / "report.html").read_text()
    assert "SASL_SSL" in str(result.outlines)
    assert "s3cret" not in "\n".join([*result.outlines, *result.errlines, page])
