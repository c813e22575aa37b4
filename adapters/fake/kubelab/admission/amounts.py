"""Amounts of resources, with Kubernetes' arithmetic, and the sums of what the containers of a pod ask for."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import attrs

from purekube.apimachinery.formats import canonical_quantity, parse_quantity

Fields = Mapping[str, Any]


@attrs.frozen
class Amount:
    """An amount of a resource. `is_binary` means that it is written in powers of two, such as `1Gi`."""

    number: Decimal = Decimal(0)
    is_binary: bool = False

    def __add__(self, other: "Amount") -> "Amount":
        return self._with(other, self.number + other.number)

    def __sub__(self, other: "Amount") -> "Amount":
        return self._with(other, self.number - other.number)

    def _with(self, other: "Amount", number: Decimal) -> "Amount":
        # apimachinery: api/resource/quantity.go, Add: the result has the notation of its first amount that is not 0.
        return Amount(number, (self if self.number else other).is_binary)

    def __str__(self) -> str:
        plain = f"{self.number.normalize():f}"
        if self.is_binary and self.number % 1024 == 0:
            plain = f"{int(self.number) // 1024}Ki"
        return canonical_quantity(plain) or plain


Amounts = dict[str, Amount]

ONE = Amount(Decimal(1))


def amount_of(quantity: Any) -> Amount:
    """Return the amount that a quantity such as `1Gi` is."""
    text = str(quantity)
    return Amount(parse_quantity(text) or Decimal(0), text.endswith("i"))


def amounts_of(quantities: Fields | None) -> Amounts:
    """Return the amounts of quantities by their names."""
    return {name: amount_of(quantity) for name, quantity in (quantities or {}).items()}


def amounts_in(part: Fields, key: str) -> Amounts:
    """Return the `requests` or `limits` (`key`) of a container, or of a pod's spec itself."""
    return amounts_of((part.get("resources") or {}).get(key))


def total_of(spec: Fields, key: str) -> Amounts:
    """Return the `requests` or `limits` (`key`) of a pod with this `spec`, without its overhead.

    They are those of all containers that run together, or of an init container that needs more before them.
    """
    # kubernetes: component-helpers/resource/helpers.go, AggregateContainerRequests.
    total, first, sidecars = Amounts(), Amounts(), Amounts()
    for container in spec.get("containers") or ():
        add(total, amounts_in(container, key))
    for container in spec.get("initContainers") or ():
        asked = amounts_in(container, key)
        # An init container that restarts always is a sidecar: it runs with all that come after it.
        if container.get("restartPolicy") == "Always":
            add(total, asked)
            add(sidecars, asked)
            _raise_to(first, sidecars)
        else:
            add(asked, sidecars)
            _raise_to(first, asked)
    _raise_to(total, first)
    return total | amounts_in(spec, key)


def add(total: Amounts, more: Amounts) -> None:
    """Add the amounts `more` to those in `total`."""
    for name, amount in more.items():
        total[name] = total.get(name, Amount()) + amount


def _raise_to(total: Amounts, least: Amounts) -> None:
    for name, amount in least.items():
        if name not in total or total[name].number < amount.number:
            total[name] = amount
