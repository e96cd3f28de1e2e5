"""Values: `@dataclass` for frozen classes with slots, `NamedTuple`, at a tenth of the import time.

The standard library generates and compiles six methods for each class at import. A broker has over
a hundred value classes; that took half of the time to load a first cluster. Here a class compiles
its constructor when it has a few instances, and all classes share the other methods.

To a type checker, `NamedTuple` is that of `typing`, and the others are those of `dataclasses`. At
run time they support what this project needs: `slots=True`, with or without `frozen` and `kw_only`;
defaults, `default_factory`, `repr=False`, `compare=False`, `__post_init__`; no inheritance but that
of a named tuple from `Generic`. Functions of `dataclasses` such as `asdict` accept these values.
"""

import functools
import itertools
import operator
from collections import _tuplegetter  # type: ignore[attr-defined]  # as in collections.namedtuple
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from embedkafka.runtime.codegen import Source

if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
    from typing import NamedTuple

__all__ = [
    "REFUSALS",
    "REQUIRED",
    "NamedTuple",
    "dataclass",
    "field",
    "make_class",
    "make_draft",
    "replace",
]

REQUIRED: Final = object()
"""Marks a field without a default."""

_EARLY: Final = 16
"""How many instances of a class are made one field at a time, before it compiles a constructor.

Compiling takes as long as making thirty, and most classes of a short test have one or two.
"""

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

            def make_early(made, *args, **given):
                early = next(count) < _EARLY
                values = _bind(fields, defaults, args, given) if early else None
                if values is not None:
                    return tuple.__new__(made, values.values())
                source = Source({"new": tuple.__new__})
                names = "".join(f"{field}, " for field in fields)
                with source.block(f"def __new__(_cls, {names}):"):
                    source.line(f"return new(_cls, ({names}))")
                constructor = source.compile("__new__", f"{name}()")
                constructor.__defaults__ = tuple(defaults.values())
                constructor.__qualname__ = made.__qualname__
                made.__new__ = staticmethod(constructor)
                return made(*args, **given)

            count = itertools.count()
            others = (base for base in bases if base is not NamedTuple)
            attributes = {"__slots__": (), **body, "__new__": make_early}
            made = type(name, (_Tuple, *others), attributes)
            fields = tuple(made.__annotations__)
            defaults = {field: body[field] for field in fields if field in body}
            made._fields = made.__match_args__ = fields
            for place, field in enumerate(fields):
                setattr(made, field, _tuplegetter(place, None))
            return made

    class NamedTuple(metaclass=_MakesTuples):
        """The base class of `typing`, which compiles no constructor before it is worth it."""


class Parameter(NamedTuple):
    """What `field()` leaves in a class body."""

    default: object = REQUIRED
    default_factory: Callable[[], object] | None = None
    repr: bool = True
    compare: bool = True


def _bind(
    names: tuple[str, ...],
    defaults: Mapping[str, object],
    args: tuple[object, ...],
    given: Mapping[str, object],
) -> dict[str, object] | None:
    """The value of each field, as a compiled constructor would find it; None if it would raise."""
    values = dict(zip(names, args, strict=False))
    if len(args) > len(names) or not given.keys().isdisjoint(values) or given.keys() - set(names):
        return None
    values |= given
    for name in names[len(args) :]:
        if name not in values:
            default = defaults.get(name, REQUIRED)
            if isinstance(default, Parameter):
                factory = default.default_factory
                default = default.default if factory is None else factory()
            if default is REQUIRED:
                return None
            values[name] = default
    return {name: values[name] for name in names}


def make_class(
    body: type,
    names: tuple[str, ...],
    methods: Mapping[str, object],
    find_defaults: Callable[[], Mapping[str, object]],
    *,
    kw_only: bool,
) -> type[Any]:  # Any: one builder serves all classes
    """The final class, with slots for `names` in place of their defaults.

    Its first instances are made one field at a time, and later ones by a compiled constructor.
    """
    count = itertools.count()

    def make_early(cls: type[Any], *args: object, **given: object) -> object:
        defaults = find_defaults()
        early = next(count) < _EARLY and not (args and kw_only)
        values = _bind(names, defaults, args, given) if early else None
        if values is None:
            _compile_constructor(cls, defaults, kw_only=kw_only)
            return cls(*args, **given)
        made = object.__new__(cls)
        for name, value in values.items():
            object.__setattr__(made, name, value)
        if hasattr(cls, "__post_init__"):
            made.__post_init__()
        return made

    attributes = {
        name: value
        for name, value in vars(body).items()
        if name not in names and name not in ("__dict__", "__weakref__")
    }
    attributes |= {
        "__slots__": names,
        "__qualname__": body.__qualname__,
        "__new__": make_early,
        **methods,
    }
    return type(body.__name__, (), attributes)


def make_draft(cls: type[Any]) -> Callable[[], Any]:  # Any: as above
    """What instances of the class are filled in as: a class of the same slots, not frozen.

    Assigning `__class__` then makes them final: much cheaper than `object.__setattr__` for each
    field.
    """
    return type("_Draft" + cls.__name__, (), {"__slots__": cls.__slots__})


def _compile_constructor(
    cls: type[Any],  # Any: as above
    defaults: Mapping[str, object],
    *,
    kw_only: bool,
) -> None:
    """Gives a class the `__new__` that its fields ask for."""
    source = Source({"draft": make_draft(cls), "proper": cls, "REQUIRED": REQUIRED})
    signature = ["cls", "*"] if kw_only and cls.__slots__ else ["cls"]
    lines = []
    for name in cls.__slots__:
        default = defaults.get(name, REQUIRED)
        if isinstance(default, Parameter) and default.default_factory is not None:
            factory = source.constant("factory", default.default_factory)
            signature.append(f"{name}=REQUIRED")
            lines.append(f"self.{name} = {factory}() if {name} is REQUIRED else {name}")
            continue
        if isinstance(default, Parameter):
            default = default.default
        required = default is REQUIRED
        signature.append(name if required else f"{name}={source.constant('default', default)}")
        lines.append(f"self.{name} = {name}")
    with source.block(f"def __new__({', '.join(signature)}):"):
        source.line("self = draft()")
        for line in lines:
            source.line(line)
        source.line("self.__class__ = proper")
        if hasattr(cls, "__post_init__"):
            source.line("self.__post_init__()")
        source.line("return self")
    constructor = source.compile("__new__", f"{cls.__qualname__}()")
    constructor.__qualname__ = cls.__qualname__
    cls.__new__ = staticmethod(constructor)


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
    defaults = {name: value for name, value in vars(body).items() if name in names}
    ruled = {name: rule for name, rule in defaults.items() if isinstance(rule, Parameter)}
    for name in defaults.keys() - ruled.keys():
        hashable = type(defaults[name]).__hash__ is not None
        assert hashable, f"{body.__qualname__}.{name}: use default_factory"
    compared = tuple(name for name in names if name not in ruled or ruled[name].compare)
    methods: dict[str, object] = {
        "__match_args__": () if kw_only else names,
        "__dataclass_fields__": _StandardFields(),
        "__shown__": tuple(name for name in names if name not in ruled or ruled[name].repr),
        "__content__": operator.attrgetter(*(compared or ("__class__",))),
        "__eq__": _equal,
        "__hash__": _hash if frozen else None,
        "__reduce__": _reduce,
        "__repr__": vars(body).get("__repr__", _repr),
    }
    if frozen:
        methods |= REFUSALS
    return make_class(body, names, methods, lambda: defaults, kw_only=kw_only)


class _StandardFields:
    """`__dataclass_fields__` for the functions of `dataclasses`, made on first use."""

    def __get__(self, instance: object, cls: type[Any]) -> Mapping[str, Any]:  # Any: any value
        import dataclasses  # importing it takes longer than making all our values

        standard: Any = dataclasses.make_dataclass(cls.__name__, cls.__slots__)
        fields: Mapping[str, Any] = standard.__dataclass_fields__
        return fields


def _fields_of(value: Any) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__slots__}


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
    shown = (f"{name}={getattr(self, name)!r}" for name in self.__shown__)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_change(self: object, name: str, value: object = None) -> NoReturn:
    raise AttributeError(f"{type(self).__qualname__}.{name} cannot be changed: it is frozen")


REFUSALS: Final[Mapping[str, object]] = {
    "__setattr__": _refuse_change,
    "__delattr__": _refuse_change,
}
"""The methods that make a class frozen."""
