"""Texts of a box: a YAML file that describes an operator. Such a text mixes plain text with expressions `${…}`."""

from collections.abc import Sequence
from itertools import pairwise


def joined_parts(parts: Sequence[str]) -> str:
    """Return the text that consists of `parts`: plain texts, and expressions with their `${` and `}`.

    Dollars at the end of a plain text become an expression, if an expression follows: `$${` would be an escape.
    """
    out = list(parts)
    for at, (part, following) in enumerate(pairwise(parts)):
        plain = part.rstrip("$")
        if plain != part and following.startswith("${"):
            out[at] = f"{plain}${{'{part[len(plain) :]}'}}"
    return "".join(out)
