"""Files, modules and functions that run as `__main__`."""

import sys
from pathlib import Path

import pytest

from embedkafka import ConfigError
from embedkafka.spark import run_script
from embedkafka.spark.execution import NotOnSparkConnect
from embedkafka.spark.scripts.programs import require_program


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "nightly_jobs", raising=False)  # of an earlier test
    path = tmp_path / "nightly_jobs"
    path.mkdir()
    for name in ("__init__", "__main__", "totals"):
        source = "print(__name__, __package__, __file__)" if name != "__init__" else ""
        (path / f"{name}.py").write_text(source)
    return path


def test_a_module_runs_as_python_runs_it(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("nightly_jobs.totals", "nightly_jobs"):
        require_program(name).run()
    file = require_program(package / "totals.py")
    file.run()
    assert capsys.readouterr().out.splitlines() == [
        f"__main__ nightly_jobs {package}/totals.py",
        f"__main__ nightly_jobs {package}/__main__.py",
        f"__main__ None {package}/totals.py",
    ]


def _main(argv: list[str]) -> None: ...


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("jobs/none.py", r"no script jobs/none\.py: No such file .*relative to /"),
        ("nightly_jobs.none", r"no module 'nightly_jobs\.none' to run"),
        ("no_such.totals", r"no module 'no_such\.totals': No module named"),
        (7, "script must be a path such as"),
        (_main, r"_main cannot be called .*'argv'.*: give it some with `lambda: _main\("),
    ],
)
def test_what_does_not_exist_is_refused(wrong: object, said: str, package: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        require_program(wrong)


def test_a_session_of_spark_connect_is_refused() -> None:
    class Session:
        __module__ = "pyspark.sql.connect.session"

        bootstrap_servers = "b:1"

    session: object = Session()
    with pytest.raises(NotOnSparkConnect, match="run_script"):
        run_script(len, kafka=session, spark=session)  # type: ignore[arg-type]  # a stand-in
