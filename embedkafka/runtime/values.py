"""Values: `@dataclass` for frozen classes with slots, `NamedTuple`, at a tenth of the import time.

The standard library generates and compiles six methods for each class at import. A broker has over
a hundred value classes; that took half of the time to load a first cluster. Here the first instance
compiles the constructor, and all classes share the other methods.

To a type checker, `NamedTuple` is that of `typing`, and the others are those of `dataclasses`. At
run time they support what this project needs: `slots=True`, with or without `frozen` and `kw_only`;
defaults, `default_factory`, `repr=False`, `compare=False`, `__post_init__`; no inheritance but that
of a named tuple from `Generic`. Functions of `dataclasses` such as `asdict` accept these values.
"""

import functools
import operator
from collections import _tuplegetter  # type: ignore[attr-defined]  # as in collections.namedtuple
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from embedkafka.runtime.source import Source

if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
    from typing import NamedTuple

__all__ = [
    "REFUSALS",
    "REQUIRED",
    "NamedTuple",
    "Parameter",
    "compile_constructor",
    "dataclass",
    "field",
    "make_class",
    "make_draft",
    "replace",
]

REQUIRED: Final = object()
"""Marks a field without a default."""

if not TYPE_CHECKING:

    class _Tuple(tuple):
        """The methods that all named tuples share."""

        __slots__ = ()

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def _replace(self, /, **changes):
            replaced = tuple.__new__(type(self), map(changes.pop, self._fields, self))
            if changes:
                raise TypeError(f"{type(self).__name__} has no {', '.join(changes)}")
            return replaced

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            shown = (f"{name}={value!r}" for name, value in self._asdict().items())
            return f"{type(self).__name__}({', '.join(shown)})"

    class _MakesTuples(type):
        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)

            def compile_on_first_use(made, *args, **values):
                source = Source({"new": tuple.__new__})
                names = "".join(f"{field}, " for field in fields)
                with source.block(f"def __new__(_cls, {names}):"):
                    source.line(f"return new(_cls, ({names}))")
                constructor = source.compile("__new__", f"{name}()")
                constructor.__defaults__ = defaults
                constructor.__qualname__ = made.__qualname__
                made.__new__ = staticmethod(constructor)
                return made(*args, **values)

            others = (base for base in bases if base is not NamedTuple)
            attributes = {"__slots__": (), **body, "__new__": compile_on_first_use}
            made = type(name, (_Tuple, *others), attributes)
            fields = tuple(made.__annotations__)
            defaults = tuple(body[field] for field in fields if field in body)
            made._fields = made.__match_args__ = fields
            for place, field in enumerate(fields):
                setattr(made, field, _tuplegetter(place, None))
            return made

    class NamedTuple(metaclass=_MakesTuples):
        """The base class of `typing`, whose first instance compiles the constructor."""


class Parameter(NamedTuple):
    """A field as the constructor sees it; also what `field()` leaves in a class body."""

    default: object = REQUIRED
    default_factory: Callable[[], object] | None = None
    repr: bool = True
    compare: bool = True


def make_class(
    body: type, names: tuple[str, ...], methods: Mapping[str, object]
) -> type[Any]:  # Any: one builder serves all classes
    """The final class, with slots for `names` in place of their defaults."""
    attributes = {
        name: value
        for name, value in vars(body).items()
        if name not in names and name not in ("__dict__", "__weakref__")
    }
    attributes |= {"__slots__": names, "__qualname__": body.__qualname__, **methods}
    return type(body.__name__, (), attributes)


def make_draft(cls: type[Any]) -> Callable[[], Any]:  # Any: as above
    """What instances of the class are filled in as: a class of the same slots, not frozen.

    Assigning `__class__` then makes them final: much cheaper than `object.__setattr__` for each
    field.
    """
    return type("_Draft" + cls.__name__, (), {"__slots__": cls.__slots__})


def compile_constructor(
    cls: type[Any],  # Any: as above
    draft: Callable[[], object],
    parameters: Mapping[str, Parameter],
    *,
    kw_only: bool,
) -> None:
    """Gives a class the `__new__` that its fields ask for."""
    source = Source({"draft": draft, "proper": cls, "REQUIRED": REQUIRED})
    with source.block(f"def __new__({_signature(source, parameters, kw_only=kw_only)}):"):
        source.line("self = draft()")
        for name, parameter in parameters.items():
            value = name
            if parameter.default_factory is not None:
                factory = source.constant("factory", parameter.default_factory)
                value = f"{factory}() if {name} is REQUIRED else {name}"
            source.line(f"self.{name} = {value}")
        source.line("self.__class__ = proper")
        if hasattr(cls, "__post_init__"):
            source.line("self.__post_init__()")
        source.line("return self")
    constructor = source.compile("__new__", f"{cls.__qualname__}()")
    constructor.__qualname__ = cls.__qualname__
    cls.__new__ = staticmethod(constructor)


def _signature(source: Source, parameters: Mapping[str, Parameter], *, kw_only: bool) -> str:
    words = ["cls", "*"] if kw_only and parameters else ["cls"]
    for name, parameter in parameters.items():
        if parameter.default_factory is not None:
            words.append(f"{name}=REQUIRED")
        elif parameter.default is REQUIRED:
            words.append(name)
        else:
            words.append(f"{name}={source.constant('default', parameter.default)}")
    return ", ".join(words)


if not TYPE_CHECKING:

    def field(*, default=REQUIRED, default_factory=None, repr=True, compare=True):
        return Parameter(default, default_factory, repr, compare)

    def dataclass(*, slots, frozen=False, kw_only=False):
        assert slots, "values have slots"
        return functools.partial(_declare, frozen=frozen, kw_only=kw_only)

    def replace(original, /, **changes):
        return type(original)(**(_fields_of(original) | changes))


def _declare(body: type[Any], *, frozen: bool, kw_only: bool) -> type[Any]:  # Any: any value
    assert body.__bases__ == (object,), f"{body.__qualname__} inherits: values do not"
    names = tuple(body.__annotations__)
    parameters = {name: _parameter(body, name) for name in names}
    compared = tuple(name for name in names if parameters[name].compare)

    def compile_on_first_use(cls: type[Any], *args: object, **kwargs: object) -> object:
        compile_constructor(proper, make_draft(proper), parameters, kw_only=kw_only)
        return cls(*args, **kwargs)

    methods: dict[str, object] = {
        "__new__": compile_on_first_use,
        "__parameters__": parameters,
        "__match_args__": () if kw_only else names,
        "__dataclass_fields__": _StandardFields(),
        "__content__": operator.attrgetter(*(compared or ("__class__",))),
        "__eq__": _equal,
        "__hash__": _hash if frozen else None,
        "__reduce__": _reduce,
        "__repr__": vars(body).get("__repr__", _repr),
    }
    if frozen:
        methods |= REFUSALS
    proper = make_class(body, names, methods)
    return proper


def _parameter(body: type, name: str) -> Parameter:
    default = vars(body).get(name, REQUIRED)
    if isinstance(default, Parameter):
        return default
    assert type(default).__hash__ is not None, f"{body.__qualname__}.{name}: use default_factory"
    return Parameter(default)


class _StandardFields:
    """`__dataclass_fields__` for the functions of `dataclasses`, made on first use."""

    def __get__(self, instance: object, cls: type[Any]) -> Mapping[str, Any]:  # Any: any value
        import dataclasses  # importing it takes longer than making all our values

        standard: Any = dataclasses.make_dataclass(cls.__name__, cls.__parameters__)
        fields: Mapping[str, Any] = standard.__dataclass_fields__
        return fields


def _fields_of(value: Any) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__parameters__}


def _equal(self: Any, other: Any) -> object:
    if type(self) is not type(other):
        return NotImplemented
    return self.__content__(self) == self.__content__(other)


def _hash(self: Any) -> int:
    return hash(self.__content__(self))


def _reduce(self: Any) -> tuple[object, ...]:
    return _remake, (type(self), _fields_of(self))


def _remake(cls: type[Any], fields: Mapping[str, object]) -> object:
    return cls(**fields)


def _repr(self: Any) -> str:
    shown = (
        f"{name}={getattr(self, name)!r}"
        for name, parameter in self.__parameters__.items()
        if parameter.repr
    )
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_change(self: object, name: str, value: object = None) -> NoReturn:
    raise AttributeError(f"{type(self).__qualname__}.{name} cannot be changed: it is frozen")


REFUSALS: Final[Mapping[str, object]] = {
    "__setattr__": _refuse_change,
    "__delattr__": _refuse_change,
}
"""The methods that make a class frozen."""
