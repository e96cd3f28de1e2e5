"""The mutation run finds decisions, repeats a seed, and tells survivors from the rest."""

import ast
from pathlib import Path

from tests.mutants.__main__ import ROOT, Workbench, known_survivors
from tests.mutants.mutations import Mutant, choose, find_places, mutate

PATH = Path("embedkafka/broker/log/sample.py")
SAMPLE = b'''\
"""The docstring has 1 < 2 and True."""
if TYPE_CHECKING:
    from os import path
def decide(size: "int < 3", other=None) -> "a or b":
    assert size > 0 and other
    _LOG.info("%s", size == 1)
    if 0 < size <= 9 or (other
        is not None):
        return f"{size != 3}"
    \xc3\xa4 = "\xc3\xa4" not in other and not size
    if size + 1 == other - 2:
        return True
class Shown:
    def __repr__(self):
        return self.a and self.b
'''


def mutants_of(source: bytes, path: Path = PATH) -> list[Mutant]:
    return [
        mutate(path, source, place, replacement)
        for place in find_places(source)
        for replacement in place.replacements
    ]


def test_decisions_are_flipped_and_nothing_else_is() -> None:
    found = {(mutant.line, mutant.after) for mutant in mutants_of(SAMPLE)}
    assert found == {
        (7, "if 0 <= size <= 9 or (other"),
        (7, "if 0 >= size <= 9 or (other"),
        (7, "if 0 < size < 9 or (other"),
        (7, "if 0 < size > 9 or (other"),
        (7, "if 0 < size <= 9 and (other"),
        (8, "is None):"),
        (10, 'ä = "ä" in other and not size'),
        (10, 'ä = "ä" not in other or not size'),
        (10, 'ä = "ä" not in other and size'),
        (11, "if size - 1 == other - 2:"),
        (11, "if size + 1 != other - 2:"),
        (12, "return False"),
    }


def test_every_mutant_is_another_program() -> None:
    dumps = {ast.dump(ast.parse(each.mutated)) for each in mutants_of(SAMPLE)}
    assert len(dumps - {ast.dump(ast.parse(SAMPLE))}) == len(mutants_of(SAMPLE))


def test_a_seed_repeats_its_choice(tmp_path: Path) -> None:
    (tmp_path / PATH).parent.mkdir(parents=True)
    (tmp_path / PATH).write_bytes(SAMPLE)
    first, again, other = (choose(tmp_path, [PATH], count=5, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert len({(mutant.line, mutant.before, mutant.after) for mutant in first}) == 5


def test_a_mutant_survives_unless_a_test_fails_or_hangs(tmp_path: Path) -> None:
    source = b"def is_small(size):\n    return size < 10\n"
    path, test = tmp_path / PATH, tmp_path / "tests/unit/broker/log/test_sample.py"
    for folder in (path.parent, test.parent, tmp_path / "bench"):
        folder.mkdir(parents=True)
    (tmp_path / "embedkafka/__init__.py").touch()
    path.write_bytes(source)
    test.write_text(
        "from embedkafka.broker.log.sample import is_small\n"
        "def test_five_is_small():\n    assert is_small(5)\n"
    )
    bench = Workbench(tmp_path, tmp_path / "bench")
    at_the_boundary, opposite = mutants_of(source)
    assert bench.survives(at_the_boundary, "broker/log", limit_s=60)
    assert not bench.survives(opposite, "broker/log", limit_s=60)
    assert not bench.survives(at_the_boundary, "broker/log", limit_s=0.01)
    assert path.read_bytes() == (tmp_path / "bench" / PATH).read_bytes() == source


def test_known_survivors_are_still_in_the_code() -> None:
    for key in known_survivors():
        path = Path(key.partition(":")[0])
        assert key in {mutant.key for mutant in mutants_of((ROOT / path).read_bytes(), path)}
