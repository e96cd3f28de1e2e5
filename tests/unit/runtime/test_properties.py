from embedkafka.runtime.properties import format_properties, parse_properties


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
