"""Every function of the language, library by library: CEL's own, its extensions, and those of Kubernetes."""

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from purekube.cel.library import encoders, lists, mathematics, network, optionals, standard, strings, times
from purekube.cel.library import kubernetes as kubernetes_
from purekube.cel.signatures import Function, FunctionTable, table

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
"""The functions of each library, by a heading for people."""

FUNCTIONS: Final[FunctionTable] = table(*LIBRARIES.values())
"""All functions with their overloads, by `FunctionKey`: name, whether it is a method, and number of arguments."""

_ONLY_HERE: Final = frozenset(("Math", "Encoders"))
_SIGNATURES_ONLY_HERE: Final = frozenset(("string.reverse() -> string", "quantity.sign() -> int", "url(url) -> url"))


def _of_the_api_server(library: Iterable[Function]) -> Iterator[Function]:
    for one in library:
        known = tuple(signature for signature in one.signatures if signature.text not in _SIGNATURES_ONLY_HERE)
        if known:
            yield attrs.evolve(one, signatures=known)


API_SERVER: Final[FunctionTable] = table(
    *(_of_the_api_server(library) for heading, library in LIBRARIES.items() if heading not in _ONLY_HERE)
)
"""The functions that Kubernetes 1.36 evaluates, in rules of CRDs and in admission policies."""
