"""`pip install .` installs what README promises."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(300)
def test_the_wheel_holds_both_packages_typed_with_their_entry_points(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name in ("embedkafka", "pytest_plugin"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*pip, str(tmp_path), str(source)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (entry_points,) = (n for n in names if n.endswith("entry_points.txt"))
        declared = archive.read(entry_points).decode()
    expected = {
        path.relative_to(root).as_posix()
        for root, package in ((ROOT, "embedkafka"), (ROOT / "pytest_plugin", "pytest_embedkafka"))
        for pattern in ("*.py", "py.typed")
        for path in (root / package).rglob(pattern)
    }
    assert expected <= set(names)
    assert {n.partition("/")[0] for n in names if ".dist-info" not in n} == {
        "embedkafka",
        "pytest_embedkafka",
    }
    assert "embedkafka = embedkafka.cli:main" in declared
    assert "embedkafka = pytest_embedkafka.plugin" in declared
