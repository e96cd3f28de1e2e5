"""The options of our own test runs do what CONTRIBUTING says."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

MODULES = {
    f"test_{name}": "import pytest\n@pytest.mark.parametrize('n', range(4))\ndef test(n): pass\n"
    for name in ("one", "two", "three")
}


def order(pytester: pytest.Pytester, *options: str) -> list[str]:
    listed = run(pytester, "--collect-only", "-q", *options)
    return [line for line in listed.outlines if "::" in line]


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest("-p", "tests.conftest", "-p", "no:asyncio", *options)


@pytest.fixture
def same_examples() -> Iterator[None]:
    """Hypothesis has one profile for the whole process."""
    yield
    settings.load_profile("same-examples")


def test_a_seed_gives_tests_one_order_and_keeps_modules_together(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(**MODULES)
    plain, seventh = order(pytester), order(pytester, "--shuffle", "7")
    assert seventh != plain
    assert sorted(seventh) == sorted(plain)
    assert order(pytester, "--shuffle", "7") == seventh
    assert order(pytester, "--shuffle", "8") != seventh
    modules = [test.partition("::")[0] for test in seventh]
    assert [modules[at] for at in range(0, 12, 4)] == list(dict.fromkeys(modules))


def test_clusters_choose_as_they_did_in_the_last_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from embedkafka import EmbeddedKafka

        def test_it():
            print("drew", *(EmbeddedKafka()._rng.random() for _ in range(2)), end="\\n")
        """
    )

    def drawn(*options: str) -> list[str]:
        (line,) = [each for each in run(pytester, "-s", *options).outlines if "drew" in each]
        return line.split()[-2:]

    one, other = first = drawn()
    assert one != other
    assert drawn() == first
    assert drawn("--shuffle", "7") != first


@pytest.mark.usefixtures("same_examples")
def test_new_examples_are_drawn_only_if_asked_for(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from hypothesis import settings

        def test_profile(request):
            assert settings().derandomize is not request.config.getoption("--new-examples")
        """
    )
    for options in ([], ["--new-examples"]):
        run(pytester, *options).assert_outcomes(passed=1)


def test_tests_that_may_have_to_download_first_have_time_for_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        def seconds(request):
            mark = request.node.get_closest_marker("timeout")
            return mark and mark.args[0]

        def test_plain(request):
            assert seconds(request) is None

        marks = [pytest.mark.java, pytest.mark.gate, pytest.mark.slow]

        @pytest.mark.parametrize("_", [pytest.param(0, marks=mark) for mark in marks])
        def test_marked(request, _):
            assert seconds(request) == 600

        @pytest.mark.gate
        @pytest.mark.timeout(900)
        def test_own(request):
            assert seconds(request) == 900
        """
    )
    run(pytester, "-m", "").assert_outcomes(passed=5)
