"""Checks the files of a release: `python ci/release_contents.py dist [tag]`."""

import re
import sys
import tarfile
import zipfile
from pathlib import Path

PACKAGES = {"embedkafka", "pytest_embedkafka"}
"""Each is a distribution of its own; both have one version."""
SOURCES = {"pyproject.toml", "README.md", "LICENSE"}
LITTER = re.compile(r"__pycache__|\.pyc$|/\.|\.cache|\.nox|\.venv|\.coverage")


def main(dist: Path, tag: str | None = None) -> int:
    problems = [problem for package in PACKAGES for problem in _problems_of(dist, package)]
    versions = {wheel.name.split("-")[1] for wheel in dist.glob("*.whl")}
    if len(versions) != 1:
        problems.append(f"the versions differ: {', '.join(sorted(versions))}")
    if tag is not None and {tag} != {f"v{version}" for version in versions}:
        problems.append(f"the tag is {tag}, the version is {', '.join(versions)}")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def _problems_of(dist: Path, package: str) -> list[str]:
    (wheel,) = dist.glob(f"{package}-*.whl")
    (sdist,) = dist.glob(f"{package}-*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        problems = _problems_of_wheel(package, set(archive.namelist()))
    with tarfile.open(sdist) as archive:
        problems += _problems_of_sdist(package, set(archive.getnames()))
    return [f"{package}: {problem}" for problem in problems]


def _problems_of_wheel(package: str, names: set[str]) -> list[str]:
    packages = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    problems = [f"the wheel lacks {name}" for name in {f"{package}/py.typed"} - names]
    problems += [f"the wheel holds {name}" for name in sorted(packages - {package})]
    return problems + [f"the wheel holds {name}" for name in sorted(filter(LITTER.search, names))]


def _problems_of_sdist(package: str, names: set[str]) -> list[str]:
    inside = {name.partition("/")[2] for name in names}
    wanted = {*SOURCES, f"{package}/py.typed"}
    problems = [f"the sdist lacks {name}" for name in sorted(wanted - inside)]
    return problems + [f"the sdist holds {name}" for name in sorted(filter(LITTER.search, inside))]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
