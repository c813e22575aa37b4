"""Arguments of functions in the type that the function takes."""

from typing import Any

from vworkspace_fake.apiserver.cel.values import no_overload

__all__ = ["items_of", "text_of"]


def text_of(value: Any) -> str:
    """`value` when it is a string, an error otherwise."""
    if not isinstance(value, str):
        raise no_overload()
    return value


def items_of(value: Any) -> list[Any]:
    """`value` when it is a list, an error otherwise."""
    if not isinstance(value, list):
        raise no_overload()
    return value
