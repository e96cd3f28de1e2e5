"""CRC32C, the checksum of v2 batches and of producer snapshots; its library loads on first use."""

import importlib.machinery
import importlib.util
from collections.abc import Callable
from typing import cast

from embedkafka.runtime.buffers import BytesLike

_Crc32c = Callable[[BytesLike], int]

_loaded: _Crc32c | None = None


def crc32c(data: BytesLike) -> int:
    """The CRC32C (Castagnoli) of `data`."""
    return (_loaded or _load())(data)


def _load() -> _Crc32c:
    global _loaded
    _loaded = _load_extension() or _load_package()
    return _loaded


def _load_extension() -> _Crc32c | None:
    """The package's C module alone: importing the package takes 70 ms to read its version."""
    package = importlib.util.find_spec("crc32c")
    if package is None:
        return None
    spec = importlib.machinery.PathFinder.find_spec(
        "crc32c._crc32c", package.submodule_search_locations
    )
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # A module loaded by hand has no type; the package's stub has this signature.
    return cast(_Crc32c | None, getattr(module, "crc32c", None))


def _load_package() -> _Crc32c:
    from crc32c import crc32c as compute

    return compute
