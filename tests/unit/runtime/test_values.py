"""Values behave like the standard library's data classes in every feature we use."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import pytest

from embedkafka.runtime import values


@values.dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """An order, as an example."""

    sku: str
    quantity: int = 1
    notes: list[str] = values.field(default_factory=list)
    secret: str = values.field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.quantity < 1:
            raise ValueError("quantity must be positive")

    @property
    def is_large(self) -> bool:
        return self.quantity > 10


@values.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0


@values.dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    x: int
    source: str = values.field(compare=False)


@values.dataclass(slots=True)
class Counter:
    count: int = 0


@values.dataclass(frozen=True, slots=True)
class Nothing:
    pass


T = TypeVar("T")


class Place(values.NamedTuple):
    """Where something is, as an example."""

    name: str
    shelf: int = 1

    def above(self) -> "Place":
        return self._replace(shelf=self.shelf + 1)


class Pair(values.NamedTuple, Generic[T]):
    left: T
    right: T


class StandardPlace(NamedTuple):
    name: str
    shelf: int = 1


def test_fields_come_from_arguments_defaults_and_factories() -> None:
    order = Order(sku="a")
    assert (order.sku, order.quantity, order.notes, order.secret) == ("a", 1, [], "")
    assert Order(sku="a").notes is not order.notes
    assert Point(1, 2) == Point(y=2, x=1)
    assert Order(sku="a", quantity=11).is_large
    assert Order.__doc__ == "An order, as an example."


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda order: order(), "sku"),
        (lambda order: order("a"), "positional"),
        (lambda order: order(sku="a", colour="red"), "colour"),
    ],
)
def test_wrong_arguments_are_refused_by_name(make: Callable[[Any], object], word: str) -> None:
    with pytest.raises(TypeError, match=rf"Order\(\).*{word}"):
        make(Order)


def test_what_is_checked_after_construction_is_checked_in_copies_too() -> None:
    with pytest.raises(ValueError, match="quantity must be positive"):
        Order(sku="a", quantity=0)
    with pytest.raises(ValueError, match="quantity must be positive"):
        values.replace(Order(sku="a"), quantity=0)


def test_frozen_values_refuse_changes_and_others_take_them() -> None:
    with pytest.raises(AttributeError, match=r"Point.x cannot be changed"):
        Point(1).x = 2  # type: ignore[misc]  # the point
    with pytest.raises(AttributeError, match=r"Point.x cannot be changed"):
        del Point(1).x
    with pytest.raises(AttributeError):
        Counter().other = 1  # type: ignore[attr-defined]  # the point
    counter = Counter()
    counter.count += 1
    assert counter == Counter(1)


def test_values_are_equal_by_content_and_hash_if_they_are_frozen() -> None:
    assert Point(1) == Point(1, 0) != Point(2)
    assert Point(1) != object()
    assert len({Point(1), Point(1), Point(2), Nothing(), Nothing()}) == 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(Counter())


def test_they_show_their_fields_but_for_hidden_ones() -> None:
    assert repr(Order(sku="a", secret="x")) == "Order(sku='a', quantity=1, notes=[])"


def test_a_field_may_be_left_out_of_comparisons() -> None:
    one, two = Read(x=1, source="a"), Read(x=1, source="b")
    assert (one, hash(one)) == (two, hash(two))
    assert one != Read(x=2, source="a")
    assert pickle.loads(pickle.dumps(two)).source == "b"
    assert repr(Nothing()) == "Nothing()"


def test_positional_fields_can_be_matched() -> None:
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)
        case _:
            pytest.fail("Point did not match")


@pytest.mark.parametrize("value", [Order(sku="a", notes=["b"]), Point(1), Counter(3), Nothing()])
def test_values_survive_copying_and_pickling(value: object) -> None:
    assert copy.deepcopy(value) == copy.copy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value


def test_the_standard_library_takes_them_for_its_own() -> None:
    assert dataclasses.is_dataclass(Order)
    assert dataclasses.asdict(Point(1)) == {"x": 1, "y": 0}
    assert dataclasses.replace(Point(1), y=5) == Point(1, 5)
    assert [field.name for field in dataclasses.fields(Counter)] == ["count"]


def test_what_would_go_wrong_later_is_refused_when_it_is_declared() -> None:
    with pytest.raises(AssertionError, match="use default_factory"):

        @values.dataclass(slots=True)
        class Shared:
            items: list[int] = []  # what the test is about

    with pytest.raises(AssertionError, match="values do not"):

        @values.dataclass(frozen=True, slots=True)
        class Derived(Point):
            z: int = 0


def test_a_named_tuple_is_made_read_and_shown_as_a_standard_one() -> None:
    place, standard = Place("hall"), StandardPlace("hall")
    assert tuple(place) == tuple(standard)
    assert hash(place) == hash(standard)
    assert repr(place) == repr(standard).removeprefix("Standard")
    assert place._asdict() == standard._asdict() == {"name": "hall", "shelf": 1}
    assert (Place._fields, Place.__match_args__) == (standard._fields, ("name", "shelf"))
    assert Place(shelf=2, name="hall") == place.above() == ("hall", 2)
    assert Pair[int](1, 2) == Pair(right=2, left=1)
    assert [copy.copy(place), pickle.loads(pickle.dumps(place))] == [place, place]
    assert type(pickle.loads(pickle.dumps(place))) is Place
    assert not hasattr(place, "__dict__")


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda make: make(), "name"),
        (lambda make: make("a", 1, 2), "positional"),
        (lambda make: make("a", colour="red"), "colour"),
        (lambda make: make("a")._replace(colour="red"), "colour"),
    ],
)
def test_a_named_tuple_refuses_wrong_arguments(make: Callable[[Any], object], word: str) -> None:
    with pytest.raises(TypeError, match=rf"Place.*{word}"):
        make(Place)


def test_a_class_with_many_instances_makes_them_as_it_made_the_first() -> None:
    @values.dataclass(frozen=True, slots=True)
    class Visit:
        place: str
        guests: list[str] = values.field(default_factory=list)
        length: int = 1

        def __post_init__(self) -> None:
            if not self.place:
                raise ValueError("visits need a place")

    class Way(values.NamedTuple):
        start: str
        end: str = "home"

    for cls, result in ((Visit, ("there", [], 1)), (Way, ("there", "home"))):
        make: Any = cls
        wrong = (make, partial(make, "a", "b", "c", "d"), partial(make, "a", colour="red"))
        twice = partial(make, "a", **{make.__match_args__[0]: "b"})
        for _ in range(3 * values._EARLY):
            first, second = make("there"), make(**{make.__match_args__[0]: "there"})
            assert first == second
            assert tuple(getattr(first, name) for name in make.__match_args__) == result
            for refused in (*wrong, twice):
                with pytest.raises(TypeError):
                    refused()
    for _ in range(3 * values._EARLY):
        with pytest.raises(ValueError, match="need a place"):
            Visit("")
        assert Visit("a").guests is not Visit("a").guests
    assert Visit.__new__.__qualname__ == Visit.__qualname__, "compiled by now"
