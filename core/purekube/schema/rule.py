"""A compiled `x-kubernetes-validations` rule as the schema tree holds it."""

from collections.abc import Callable, Mapping
from typing import Any

import attrs


@attrs.frozen(eq=False)
class CompiledRule:
    """One rule. `run` and `message_run` are functions of the variables `self` and `oldSelf`.

    `transition` says that the rule reads `oldSelf`: it runs only if an old value exists. `optional_old` is
    `optionalOldSelf`: the rule always runs and sees `oldSelf` as an optional. `typed` says that the values below need
    conversion before a rule sees them (times, doubles, sets). `message` is the text of a violation; `field_path`
    (`.spec.x`) and `reason` belong to it.
    """

    text: str
    run: Callable[[Mapping[str, Any]], Any]
    message: str = ""
    message_run: Callable[[Mapping[str, Any]], Any] | None = None
    reason: str = "FieldValueInvalid"
    field_path: str = ""
    transition: bool = False
    optional_old: bool = False
    typed: bool = False
