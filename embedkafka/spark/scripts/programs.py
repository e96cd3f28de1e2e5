"""What a script is: a file, a module or a function, ready to run as `__main__`.

Owner: none. Nothing of it runs before the caller calls `Program.run`.
"""

import importlib.util
import inspect
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from embedkafka.runtime.arguments import require_path, shown
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import dataclass

_KINDS = 'a path such as "jobs/totals.py", a module such as "jobs.totals", or a function'


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Something to run."""

    name: str
    """As `sys.argv[0]` has it."""
    file: str | None
    """Where its code is, as tracebacks name it."""
    folder: str | None
    """What Python has in front of `sys.path` while it runs."""
    run: Callable[[], object]
    module: ModuleType | None = None
    """Its `__main__`; None for a function, which is in some module already."""


def require_program(script: object) -> Program:
    """Raises `ConfigError` if there is no such script, `SyntaxError` if it is not valid Python."""
    if isinstance(script, str) and not _is_path(script):
        return _module(script)
    if isinstance(script, str | Path):
        return _file(require_path("script", script, refusal=ConfigError))
    if callable(script):
        return _function(script)
    raise ConfigError(f"script must be {_KINDS}, got {shown(script)}")


def _is_path(script: str) -> bool:
    return script.endswith(".py") or "/" in script or "\\" in script or not script


def _file(path: Path) -> Program:
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"there is no script {path}: {error.strerror} (relative to {Path.cwd()})"
        ) from error
    code = compile(source, str(path), "exec", dont_inherit=True)
    module = _main(str(path), None)
    return Program(
        name=str(path),
        file=str(path),
        folder=str(path.resolve().parent),
        run=lambda: exec(code, vars(module)),
        module=module,
    )


def _module(name: str) -> Program:
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:  # a package
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as error:
        raise ConfigError(f"there is no module {shown(name)}: {error}") from error
    loader: Any = spec and spec.loader  # of a type without `get_code`
    if spec is None or not hasattr(loader, "get_code"):
        raise ConfigError(
            f"there is no module {shown(name)} to run; a script is {_KINDS}. "
            f"sys.path is {', '.join(sys.path[:3])}, ..."
        )
    code = loader.get_code(spec.name)
    module = _main(spec.origin, spec)
    return Program(
        name=spec.origin or name,
        file=spec.origin,
        folder=None,
        run=lambda: exec(code, vars(module)),
        module=module,
    )


def _main(file: str | None, spec: ModuleSpec | None) -> ModuleType:
    """A module as Python makes it to run it as `__main__`."""
    module = ModuleType("__main__")
    vars(module).update(
        __file__=file,
        __package__=None if spec is None else spec.parent,
        __spec__=spec,
        __builtins__=__builtins__,
    )
    return module


def _function(main: Callable[[], object]) -> Program:
    name = str(getattr(main, "__qualname__", main))
    try:
        inspect.signature(main).bind()
    except TypeError as error:
        raise ConfigError(
            f"{name} cannot be called without arguments ({error}): give it some with "
            f'`lambda: {name.rpartition(".")[2]}(["--since", "1"])`'
        ) from error
    except ValueError:  # a function in C may not tell
        pass
    code = getattr(main, "__code__", None)
    return Program(
        name=name,
        file=None if code is None else code.co_filename,
        folder=None,
        run=main,
    )
