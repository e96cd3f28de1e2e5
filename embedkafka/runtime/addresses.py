"""Formats host and port: `broker:9092`, or `[::1]:9092` for an IPv6 address."""

from typing import Final

LOOPBACK: Final = "127.0.0.1"


def format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def is_wildcard(host: str) -> bool:
    """Whether to listen on `host` is to listen on all addresses of the machine."""
    return host in ("0.0.0.0", "::")


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect; names other than `localhost` count as remote."""
    return host in ("localhost", "::1") or host.startswith("127.")
