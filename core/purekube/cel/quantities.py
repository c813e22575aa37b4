"""The parsing of Kubernetes quantities: a decimal number with a binary or decimal suffix, or an exponent."""

import re
from decimal import Decimal
from typing import Final

_QUANTITY: Final = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))([eE][+-]?\d+|[KMGTPE]i|[numkMGTPE]|)")
_FACTORS: Final = {
    "": Decimal(1),
    **{prefix: Decimal(10) ** exponent for prefix, exponent in zip("num", (-9, -6, -3), strict=True)},
    **{prefix: Decimal(1000) ** power for power, prefix in enumerate("kMGTPE", 1)},
    **{prefix + "i": Decimal(1024) ** power for power, prefix in enumerate("KMGTPE", 1)},
}


def parse_quantity(text: str) -> Decimal | None:
    """Return the value of `text`; None if it is not a quantity."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    number, suffix = match.groups()
    if len(suffix) > 1 and suffix[0] in "eE":
        return Decimal(number + suffix)
    return Decimal(number) * _FACTORS[suffix]


def is_quantity(text: str) -> bool:
    """Report whether `text` is a quantity."""
    return _QUANTITY.fullmatch(text) is not None
