"""Every function of the language, library by library: CEL's own, its extensions, and those of Kubernetes."""

from typing import Final

from purekube.cel.library import encoders, lists, mathematics, network, optionals, standard, strings, times
from purekube.cel.library import kubernetes as kubernetes_
from purekube.cel.signatures import FunctionTable, table

__all__ = ["API_SERVER", "FUNCTIONS", "LIBRARIES"]

LIBRARIES: Final = {
    "Standard": standard.FUNCTIONS,
    "Times": times.FUNCTIONS,
    "Strings": strings.FUNCTIONS,
    "Lists and sets": lists.FUNCTIONS,
    "Math": mathematics.FUNCTIONS,
    "Optional values": optionals.FUNCTIONS,
    "Encoders": encoders.FUNCTIONS,
    "Quantities, versions, regular expressions": kubernetes_.FUNCTIONS,
    "URLs, addresses, networks": network.FUNCTIONS,
}
"""The libraries by a heading for people."""

FUNCTIONS: Final[FunctionTable] = table(*LIBRARIES.values())
"""The functions by name, each with its overloads."""

_ONLY_HERE: Final = frozenset(("Math", "Encoders"))
_NEWER: Final = frozenset(("string.reverse() -> string",))
"""Signatures of libraries of which the API server has an older version."""

API_SERVER: Final[FunctionTable] = table(
    *(
        [one for one in library if one.signatures[0].text not in _NEWER]
        for heading, library in LIBRARIES.items()
        if heading not in _ONLY_HERE
    )
)
"""The functions that Kubernetes 1.36 evaluates, in rules of CRDs and in admission policies."""
