"""RE2's syntax as Kafka 4.3 reads it: a real broker confirmed every line."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedkafka.broker.coordinator.re2 import InvalidExpression, compile_re2

TOPICS = ("FOO-c", "bar", "foo-a", "foo-b", "x.y", "z1")

#: Expressions by the topics they match.
MATCHES = {
    "": [
        "foo",
        r"\d+",
        r"\pN",
        "[a-z&&[^b]]+",
        r"[\d]",
        "foo-a{,2}",
        "foo-a{",
        "(?is-m)foo",
        r"\_",
        r"\-",
        r"\07",
        r"\0",
        r"\v",
        r"\f",
        r"\a",
        "(?)",
        "(?:)",
        "()*",
        "^*",
        r"\Qfoo-*\E+",
        "[]a]",
        "[^]a]",
        "[[:^alpha:]]+",
        r"\p{Greek}",
        r"\P{L}+",
        "(?i:foo)-A",
        "(a{100}){100}",
        "z{2,}",
        "[[:alpha]",
        "[:alpha:]+",
        "{",
        "}",
        "]",
        "a{2",
        r"\z",
        r"\Q\E",
        r"\077",
        r"\12",
        "é",
    ],
    "FOO-c": [r"\p{Lu}+-c", "(?i)foo-c"],
    "FOO-c bar foo-a foo-b x.y z1": ["(?s).*"],
    "FOO-c bar foo-a foo-b z1": [r"[\w-]+"],
    "FOO-c foo-a foo-b": [".{5}", "(?-s).{5}"],
    "bar": [r"\pL+", r"\p{Latin}+"],
    "bar foo-a": ["foo(?i)-A|BAR", "foo-a||bar"],
    "bar foo-a foo-b": ["(foo|bar).*"],
    "bar foo-a foo-b x.y z1": [r"\p{^Lu}+"],
    "bar z1": ["[[:word:]]+"],
    "foo-a": [
        "(?P<n>foo)-a",
        r"\Qfoo-a\E",
        r"foo-a\z",
        "foo-a$",
        "^foo-a$",
        "(?<n>foo)-a",
        "[[:alpha:]]+-a",
        r"\x{66}oo-a",
        r"\x66oo-a",
        r"\bfoo-a\b",
        r"\Afoo-a",
        "foo-a|",
        "(?m)^foo-a$",
        "(?i:FOO-a)",
        "(?-i)foo-a",
        r"foo\-a",
        r"\Qfoo-a",
        "foo[a-]a",
        r"[\pL-]+a",
        "a(?i)OO|FOO-A",
        "(?P<1a>foo-a)",
        "foo-a{1}",
        r"foo-a\b*",
        "|foo-a",
        "(|foo)-a",
        "(?i)(foo)(?-i)-(a|C)",
        r"\pLoo-a",
        r"(?i)\x46oo-a",
        "foo-a(?i)",
        "foo-a",
    ],
    "foo-a foo-b": ["foo-.*", "(?U)foo-.*", r"[a-z]+\-[ab]"],
    "foo-b": ["foo-[^a]", "foo[-a]b"],
    "x.y": [r"x\.y", r"x\.y{1,2}"],
    "z1": [r"z\d", "z[[:digit:]]", "z{0}z1", r"[\d-z]+"],
}
#: Expressions by the error message they cause.
COMPLAINTS = {
    "duplicate capture group name": ["(?P<n>a)(?P<n>b)"],
    "invalid character class range": ["[z-a]", "[[:foo:]]", r"\p{Foo}", r"\p", r"\p{L"],
    "invalid escape sequence": [
        r"(foo)-\1",
        r"foo-a\Z",
        r"\u0066oo-a",
        r"\Cfoo",
        r"\h+",
        r"\Gfoo",
        r"\8",
        r"\N{DIGIT ONE}",
        r"\e",
        r"\cA",
        r"\k<n>",
        r"\1",
        r"\G",
        r"\R",
        r"\X",
        r"\K",
        r"[\b]",
        r"\x{110000}",
        r"\x6",
        r"foo-[a-\d]",
        r"\E",
        r"\x{}",
        r"\x{zz}",
        r"[\1]",
        r"[\Qa\E]",
    ],
    "invalid named capture": ["(?<=f)oo.*", "(?P<>a)", "(?P<n"],
    "invalid nested repetition operator": ["foo-a++", "foo-a?+", "a**", "a{2}{3}"],
    "invalid or unsupported Perl syntax": [
        "(?=foo).*",
        "(?!foo).*",
        "(?P=n)",
        "(?#c)foo-a",
        "foo-(?>a)",
        "(?(1)a|b)",
        "(?x) foo-a",
        "(?a)foo",
        "(?L)foo",
        "(?u)foo",
        "(?-)",
        "(?i-)",
        "(?i",
        "(?",
        "(?P",
    ],
    "invalid repeat count": ["a{2,1}", "a{1001}", "a{1,1001}", "a{3,2}"],
    "missing argument to repetition operator": ["*", "(?i)*", "a|*", "(*a)"],
    "missing closing )": ["(a"],
    "missing closing ]": ["[", "foo-[ab", "[[:alpha:]"],
    "regexp/syntax: internal error": ["a)"],
    "trailing backslash at end of expression": ["foo\\", "[a\\"],
}


EXPRESSIONS = st.recursive(
    st.sampled_from(
        ["a", "b", "-", "[ab]", "[^a]", ".", r"\w", r"\b", r"\B", "^", "", r"\n", r"\W"]
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "{0}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
        inner.map(lambda part: f"(?m:{part}$)"),
        inner.map(lambda part: f"(?s:^{part})"),
        inner.map(lambda part: f"(?i:A{part})"),
    ),
    max_leaves=8,
)


def each(table: Any) -> list[Any]:
    return [
        pytest.param(expression, result, id=repr(expression))
        for result, expressions in table.items()
        for expression in expressions
    ]


@pytest.mark.parametrize(("expression", "topics"), each(MATCHES))
def test_it_matches_what_it_matches_in_kafka(expression: str, topics: str) -> None:
    pattern = compile_re2(expression)
    assert " ".join(topic for topic in TOPICS if pattern.fullmatch(topic)) == topics


@pytest.mark.parametrize(("expression", "complaint"), each(COMPLAINTS))
def test_it_is_refused_as_in_kafka(expression: str, complaint: str) -> None:
    with pytest.raises(InvalidExpression) as refusal:
        compile_re2(expression)
    assert str(refusal.value) == complaint


def test_signs_of_the_whole_text_are_taken_literally_in_python_too() -> None:
    assert compile_re2(r"\p{Greek}+").fullmatch("λόγος")
    assert compile_re2("[^a]").fullmatch("\n")
    assert not compile_re2("a$").fullmatch("a\n")
    assert not compile_re2(r"a\s").fullmatch("a\v")
    assert not compile_re2(r"\w").fullmatch("é")
    assert compile_re2(r"(?s)a.b").fullmatch("a\nb")
    assert not compile_re2("a.b").fullmatch("a\nb")


def test_a_thousand_levels_are_read_and_more_are_refused() -> None:
    assert compile_re2("(" * 1000 + "a" + ")" * 1000).fullmatch("a")
    nested = "(a|" * 900 + "b" + ")" * 900
    for expression in ("(" * 1001 + "a" + ")" * 1001, "(" * 20_000, "(?i:" * 5000, nested):
        with pytest.raises(InvalidExpression, match="expression nests too deeply"):
            compile_re2(expression)


@pytest.mark.parametrize(
    "expression",
    ["((a{100}){100}){100}", "(a{1000}){1000}", "a" * 20_000, "a|" * 20_000, "(ab?){999}" * 10],
)
def test_what_grows_too_large_is_refused(expression: str) -> None:
    with pytest.raises(InvalidExpression, match="expression too large"):
        compile_re2(expression)


@pytest.mark.parametrize(
    "expression", ["a{1000000000000}", "a{0,1000000000000}", f"a{{{'9' * 9000}}}"]
)
def test_a_count_of_any_length_is_refused_as_in_kafka(expression: str) -> None:
    with pytest.raises(InvalidExpression, match="invalid repeat count"):
        compile_re2(expression)


def test_a_count_with_leading_zeros_is_text() -> None:
    assert compile_re2("a{01}").fullmatch("a{01}")
    assert compile_re2("a{1,02}").fullmatch("a{1,02}")


def test_a_repetition_reaches_back_over_a_change_of_flags() -> None:
    assert compile_re2("fo(?i)*").fullmatch("fooo")


def test_either_case_is_meant_before_a_class_is_inverted() -> None:
    assert not compile_re2("(?i)[^a]").fullmatch("A")
    assert compile_re2("(?i)[^a]").fullmatch("B")


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_it_agrees_with_python_where_the_syntaxes_do(data: st.DataObject) -> None:
    """Expressions that mean the same in both, small enough for Python to match in time."""
    expression = data.draw(EXPRESSIONS)
    pattern = compile_re2(expression)
    # Python 3.11 finds no `\\B` in an empty string.
    texts = st.text("ab-\n", min_size=1, max_size=5)
    for text in data.draw(st.lists(texts, min_size=1, max_size=5)):
        found = bool(re.fullmatch(expression, text, re.ASCII))
        assert bool(pattern.fullmatch(text)) == found
