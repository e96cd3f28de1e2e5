"""ARCHITECTURE.md describes the layout of the code; a contract in pyproject.toml enforces it."""

import re

from tests.tidy.sources import PACKAGES, ROOT, settings

TEXT = (ROOT / "ARCHITECTURE.md").read_text()


def layers_of_the_contract() -> list[set[str]]:
    contracts = settings()["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each["name"] == "Imports point down")
    return [
        {name.strip().removeprefix("embedkafka.") for name in layer.split("|")}
        for layer in contract["layers"]
    ]


def test_the_map_has_every_package() -> None:
    table = TEXT.partition("| package | is |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\|([^|]+)\|", table, re.MULTILINE)
    mapped = [name for row in rows for name in re.findall(r"`(\w+)(?:/|\.py)`", row)]
    assert sorted(mapped) == PACKAGES


def test_the_layer_line_is_the_contract() -> None:
    (line,) = re.findall(r"^cli +> .*$", TEXT, re.MULTILINE)
    drawn = [{name.strip() for name in layer.split("|")} for layer in line.split(">")]
    assert drawn == layers_of_the_contract()


def test_the_contract_has_every_package() -> None:
    assert sorted(set().union(*layers_of_the_contract())) == PACKAGES
