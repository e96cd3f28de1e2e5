"""Who a client is: the user that authentication found, or `User:ANONYMOUS`."""

from typing import Final

from embedkafka.runtime.failures import ConfigError

USER: Final = "User"


class KafkaPrincipal:
    """A type, almost always `User`, and a name; written `User:alice`.

    A principal is the same whether its client logged in with a password or with a delegation token.
    """

    __slots__ = ("_text", "name", "token_authenticated", "type")

    def __init__(self, type: str, name: str, *, token_authenticated: bool = False) -> None:
        self.type = type
        self.name = name
        self.token_authenticated = token_authenticated
        self._text = f"{type}:{name}"

    @classmethod
    def parse(cls, text: str) -> "KafkaPrincipal":
        """Reads `User:alice`."""
        type, separator, name = text.partition(":")
        if not separator or not type:
            raise ConfigError(f"{text!r} is no principal: write it as User:{text or 'alice'}")
        return cls(type, name)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"KafkaPrincipal({self._text})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KafkaPrincipal) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


ANONYMOUS: Final = KafkaPrincipal(USER, "ANONYMOUS")
