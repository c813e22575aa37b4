"""The validation of an object: structure, embedded resources, list types, then CEL rules.

CEL rules run only if nothing is wrong that could make them meaningless; otherwise a cause without a field says so, as
on a real server.
"""

from typing import Any, Final

from purekube.apimachinery.errors import StatusCause
from purekube.schema.causes import NO_FIELD, invalid_value
from purekube.schema.listtypes import check_embedded, check_list_types
from purekube.schema.node import MISSING, Schema
from purekube.schema.rules import check_rules
from purekube.schema.structure import check_structure

_BLOCKING: Final = frozenset(
    ("FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid")
)
_UNCHECKED: Final = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


def validate(schema: Schema, value: Any, old: Any = None, *, settled: bool = False) -> list[StatusCause]:
    """Return all causes why the object `value`, which replaces `old` (None: it is new), is invalid.

    Reasons and paths are those of a real server. Unchanged parts do not make an update invalid (ratcheting); transition
    rules (`oldSelf`) run only if an old value exists. With `settled` the old value was found valid by this same schema:
    parts that `value` shares with it are skipped.
    """
    before = MISSING if old is None else old
    causes = check_structure(schema, value, before)
    causes += check_embedded(schema, value)
    repeated = check_list_types(schema, value)
    if repeated and (old is None or not check_list_types(schema, old)):
        causes += repeated
    if any(cause.reason in _BLOCKING for cause in causes):
        return [*causes, invalid_value(NO_FIELD, None, _UNCHECKED)]
    return causes + check_rules(schema, value, before, settled=settled)
