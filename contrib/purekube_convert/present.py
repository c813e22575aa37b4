"""The rewriting of kro's expressions that read fields which may be absent, so that a box waits for these fields.

A box is a YAML file that describes an operator. An expression of kro waits until such a field is present. A box waits
if the expression says `.?field.value()`.
"""

import re
from collections.abc import Mapping
from typing import Final

import attrs

from purekube.boxes.expressions import FUNCTIONS
from purekube.cel import CelSyntaxError, CelType, Environment, compile_expression

_STEP: Final = re.compile(r"\.\s*([A-Za-z_]\w*)")


@attrs.frozen
class PresenceChecks:
    """A rewriter of kro's expressions for a box. A box waits for an absent field only if the expression says so.

    `types` are the types of the variables. Only the type of `self`, the parent (the custom resource), says which fields
    may be absent.
    """

    types: Mapping[str, CelType]

    def text(self, text: str, bound: Mapping[str, CelType]) -> str:
        """Return the expression `text` with `.?field.value()` for each field of the parent that may be absent.

        `bound` has the types of further variables, such as those of a loop. An invalid expression is returned
        unchanged.
        """
        try:
            checked = compile_expression(text, Environment({**self.types, **bound}, FUNCTIONS)).checked
        except CelSyntaxError:
            return text  # the check of the box reports what is wrong with it
        absences = checked.absences if checked is not None else ()
        places = {absence.at for absence in absences if absence.path[0] in ("self", *bound)}
        for at in sorted(places, reverse=True):
            if (step := _STEP.match(text, at)) is not None:
                text = f"{text[:at]}.?{step[1]}.value(){text[step.end() :]}"
        return text
