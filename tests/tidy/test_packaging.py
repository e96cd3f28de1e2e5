"""`pip install .` installs what README promises, and the plugin's distribution the rest."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "pytest_plugin"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("root", "package", "entry_point"),
    [
        (ROOT, "embedkafka", "embedkafka = embedkafka.cli:main"),
        (PLUGIN, "pytest_embedkafka", "embedkafka = pytest_embedkafka.plugin"),
    ],
)
def test_a_wheel_holds_its_package_typed_with_its_entry_point(
    tmp_path: Path, root: Path, package: str, entry_point: str
) -> None:
    source = tmp_path / "source"
    shutil.copytree(root / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / name, source)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*pip, str(tmp_path), str(source)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (entry_points,) = (n for n in names if n.endswith("entry_points.txt"))
        declared = archive.read(entry_points).decode()
    expected = {
        path.relative_to(root).as_posix()
        for pattern in ("*.py", "py.typed")
        for path in (root / package).rglob(pattern)
    }
    assert expected <= set(names)
    assert {n.partition("/")[0] for n in names if ".dist-info" not in n} == {package}
    assert declared.count(" = ") == 1
    assert entry_point in declared


def test_both_distributions_have_one_version_and_ask_for_each_other() -> None:
    library, plugin = _project(ROOT), _project(PLUGIN)
    version = library["version"]
    assert plugin["version"] == version
    assert plugin["dependencies"] == [f"embedkafka=={version}", "pytest>=8"]
    assert library["optional-dependencies"]["pytest"] == [f"pytest-embedkafka=={version}"]
    for key in ("requires-python", "license", "classifiers"):
        shared = set(plugin[key]) if key == "classifiers" else plugin[key]
        assert shared == (set(library[key]) if key == "classifiers" else library[key])
    assert (PLUGIN / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def _project(root: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return project
