"""Values: a `@dataclass` for frozen classes with slots, at a tenth of the import time.

The standard library generates and compiles six methods for each class at import. A broker has over
a hundred value classes; that took half of the time to load a first cluster. Here the first instance
compiles the constructor, and all classes share the other methods.

To a type checker, `dataclass`, `field` and `replace` are those of `dataclasses`. At run time they
support what this project needs: `slots=True`, with or without `frozen` and `kw_only`; defaults,
`default_factory`, `repr=False`, `compare=False`, `__post_init__`; no inheritance. Functions of
`dataclasses` such as `asdict` accept these values.
"""

import functools
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from embedkafka.runtime.source import Source

if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace

__all__ = [
    "REFUSALS",
    "REQUIRED",
    "Parameter",
    "compile_constructor",
    "dataclass",
    "field",
    "make_class",
    "replace",
]

REQUIRED: Final = object()
"""Marks a field without a default."""


class Parameter(NamedTuple):
    """A field as the constructor sees it; also what `field()` leaves in a class body."""

    default: object = REQUIRED
    default_factory: Callable[[], object] | None = None
    repr: bool = True
    compare: bool = True


def make_class(
    body: type, names: tuple[str, ...], methods: Mapping[str, object]
) -> tuple[type[Any], type[Any]]:  # Any: one builder serves all classes
    """The final class, with slots for `names` in place of their defaults, and its draft.

    Instances are filled in as a draft, a base class that allows assignment. Assigning `__class__`
    then makes them final: much cheaper than `object.__setattr__` for each field.
    """
    draft = type("_Draft" + body.__name__, (), {"__slots__": names})
    attributes = {
        name: value
        for name, value in vars(body).items()
        if name not in names and name not in ("__dict__", "__weakref__")
    }
    attributes |= {"__slots__": (), "__qualname__": body.__qualname__, **methods}
    return type(body.__name__, (draft,), attributes), draft


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
        compile_constructor(proper, draft, parameters, kw_only=kw_only)
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
    proper, draft = make_class(body, names, methods)
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
