"""Checks the files in a wheel and an sdist: `python ci/release_contents.py dist [tag]`."""

import re
import sys
import tarfile
import zipfile
from pathlib import Path

PACKAGES = {"embedkafka", "pytest_embedkafka"}
TYPED = {f"{package}/py.typed" for package in PACKAGES}
SOURCES = {"pyproject.toml", "README.md", "LICENSE", "CHANGES.md", "embedkafka/py.typed"}
LITTER = re.compile(r"__pycache__|\.pyc$|/\.|\.cache|\.nox|\.venv|\.coverage")


def main(dist: Path, tag: str | None = None) -> int:
    (wheel,) = dist.glob("*.whl")
    (sdist,) = dist.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        problems = _problems_of_wheel(set(archive.namelist()))
    with tarfile.open(sdist) as archive:
        problems += _problems_of_sdist(set(archive.getnames()))
    version = wheel.name.split("-")[1]
    if tag is not None and tag != f"v{version}":
        problems.append(f"the tag is {tag}, the version is {version}")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def _problems_of_wheel(names: set[str]) -> list[str]:
    packages = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    problems = [f"the wheel lacks {name}" for name in sorted(TYPED - names)]
    problems += [f"the wheel holds {name}" for name in sorted(packages - PACKAGES)]
    return problems + [f"the wheel holds {name}" for name in sorted(filter(LITTER.search, names))]


def _problems_of_sdist(names: set[str]) -> list[str]:
    inside = {name.partition("/")[2] for name in names}
    problems = [f"the sdist lacks {name}" for name in sorted(SOURCES - inside)]
    return problems + [f"the sdist holds {name}" for name in sorted(filter(LITTER.search, inside))]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
