"""Kubernetes quantities, such as `1.5Gi`, as numbers."""

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
    """Return the numeric value of a Kubernetes quantity such as `1.5Gi`; None if `text` is no quantity."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    number, suffix = match.groups()
    factor = _FACTORS.get(suffix)
    return Decimal(number + suffix) if factor is None else Decimal(number) * factor


def is_quantity(text: str) -> bool:
    """Report whether `text` is a Kubernetes quantity such as `1.5Gi`."""
    return _QUANTITY.fullmatch(text) is not None
