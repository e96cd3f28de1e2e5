"""Where a driver dies in `foreachBatch`: before lines that write first, each place in its turn."""

from embedkafka.explore.places import Passed, Place, SinkCall, in_turn, kill_places


def place(line: int, nth: int = 1) -> Place:
    return Place(file="/jobs/totals.py", line=line, nth=nth, text=f"step({line})")


def test_lines_that_write_come_first() -> None:
    lines = tuple(map(place, (3, 4, 5)))
    writes = (SinkCall(name="DataFrameWriter.save", place=place(5)),)
    assert kill_places(Passed(functions=1, lines=lines, writes=writes)) == (
        place(5),
        place(3),
        place(4),
    )


def test_every_part_has_its_turn() -> None:
    assert [list(in_turn("abcde", turn, 3)) for turn in range(3)] == [[0, 1, 2], [3, 4], [0, 1, 2]]
    assert list(in_turn("", 4, 3)) == []


def test_a_place_is_told_by_its_file_and_text() -> None:
    assert str(place(7)) == "line 7 of totals.py (`step(7)`)"
    assert str(place(7, nth=2)).endswith(" in the second turn")
    assert len(str(Place(file="a.py", line=1, text="x" * 500))) < 100
