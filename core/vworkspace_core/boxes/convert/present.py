"""Expressions of kro that read what may be absent: the reader waits there, which a box says by `.?field.value()`."""

import re
from collections.abc import Mapping
from typing import Final

import attrs

from vworkspace_core.boxes.functions import FUNCTIONS
from vworkspace_core.cel import CelSyntaxError, CelType, Environment, compile_expression

_STEP: Final = re.compile(r"\.\s*([A-Za-z_]\w*)")


@attrs.frozen
class Present:
    """Makes the waiting visible. `types` are those of the variables; `self` is the one whose schema is binding."""

    types: Mapping[str, CelType]

    def text(self, text: str, bound: Mapping[str, CelType]) -> str:
        """Return the expression; each field of the parent that it takes for there, and that may be absent, is asked."""
        try:
            checked = compile_expression(text, Environment({**self.types, **bound}, FUNCTIONS)).checked
        except CelSyntaxError:
            return text  # the check of the box tells what is wrong with it
        absences = checked.absences if checked is not None else ()
        places = {absence.at for absence in absences if absence.path[0] in ("self", *bound)}
        for at in sorted(places, reverse=True):
            if (step := _STEP.match(text, at)) is not None:
                text = f"{text[:at]}.?{step[1]}.value(){text[step.end() :]}"
        return text
