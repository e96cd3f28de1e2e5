from pathlib import Path

from embedkafka.runtime.properties import format_properties, parse_properties, read_properties


def test_comments_continuations_separators_and_escapes_are_those_of_java() -> None:
    text = (
        "# note\n! note\na=1\nb : two words \nc three\n"
        "long = x,\\\n   y\nk\\:ey=v\\u0041\\n\nempty=\n"
    )
    assert parse_properties(text) == {
        "a": "1",
        "b": "two words ",
        "c": "three",
        "long": "x,y",
        "k:ey": "vA\n",
        "empty": "",
    }


def test_what_is_formatted_parses_back() -> None:
    values = {"broker.id": "1", "a b:c": "x=y"}
    assert parse_properties(format_properties(values)) == values


def test_a_file_is_latin_1_and_only_line_ends_end_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes("# größe\x85 Ü\nrack=Ü\x0bb\f\r\nid=1\rport=2\n".encode("iso-8859-1"))
    assert read_properties(file) == {"rack": "Ü\x0bb\f", "id": "1", "port": "2"}
    file.write_bytes("# Å, in UTF-8\nid=1\n".encode())
    assert read_properties(file) == {"id": "1"}


def test_other_letters_are_escaped_as_java_does(tmp_path: Path) -> None:
    values = {"schlüssel": "grün 😀 \x85"}
    file = tmp_path / "client.properties"
    file.write_text(format_properties(values), encoding="ascii")
    assert file.read_text() == "schl\\u00fcssel=gr\\u00fcn \\ud83d\\ude00 \\u0085\n"
    assert read_properties(file) == values
