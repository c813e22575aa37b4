"""Reading of JSON as attrs values (RES-1 to RES-3).

Every watch event is read here, so a fast generated function reads values that fit. Only an object that does not fit is
read a second time, more slowly, to report all its problems at once, each with its path.

cattrs and the converters are imported at the first use: they take a tenth of the start of commands, of which most read
nothing as attrs values (SEE-5).
"""

from collections.abc import Container, Iterator, Mapping
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from purekube.apimachinery.conditions import conditions_of
from purekube.apimachinery.fields import camel
from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.meta import Condition, ObjectMeta
from purekube.apimachinery.problems import MOST_PROBLEMS, Problem, ValidationProblems, index, join

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")


def structure(cls: type[T], value: Any) -> T:
    """Read `value` (JSON) as an instance of `cls`. Unknown fields are skipped, and null counts as absent.

    Raises ValidationProblems with every problem if `value` does not fit `cls`. Fields that accept any JSON are shared
    with `value` and with other results, not copied.
    """
    from purekube.apimachinery.converters import FAST, TOLERANT

    try:
        return FAST.structure(value, cls)
    except (TypeError, ValueError, KeyError):
        return structure_patiently(TOLERANT, cls, value)


def structure_patiently(converter: "Converter", cls: type[T], value: Any) -> T:
    """Read `value` as `cls` with `converter`, which must collect all failures instead of stopping at the first. Raises
    ValidationProblems with all failures.
    """
    from cattrs import ClassValidationError, IterableValidationError

    try:
        return converter.structure(value, cls)
    except (TypeError, ValueError, KeyError, ClassValidationError, IterableValidationError) as error:
        problems = tuple(islice(_problems(error, ""), MOST_PROBLEMS))
    raise ValidationProblems(problems)


def unstructure(value: Any) -> dict[str, Any]:
    """Return the JSON of an attrs value in camelCase. Nulls and empty values are left out where absence means the same.

    Fields that accept any JSON are shared with `value`, not copied.
    """
    from purekube.apimachinery.converters import FAST

    body: dict[str, Any] = FAST.unstructure(value)
    return body


def _problems(error: BaseException, path: str) -> Iterator[Problem]:
    from cattrs import ClassValidationError, ForbiddenExtraKeysError, IterableValidationError

    match error:
        case ClassValidationError():
            noted, others = error.group_exceptions()
            for inner, note in noted:
                yield from _problems(inner, join(path, camel(note.name)))
            for inner in others:
                yield from _problems(inner, path)
        case IterableValidationError():
            for item, item_note in error.group_exceptions()[0]:
                at = item_note.index
                yield from _problems(item, join(path, at) if isinstance(at, str) else index(path, int(at)))
        case ForbiddenExtraKeysError():
            for name in nsmallest(MOST_PROBLEMS, map(str, error.extra_fields)):
                yield Problem(join(path, name), "unknown field")
        case KeyError():
            yield Problem(path, "is required")
        case _:
            yield Problem(path, str(error))


def read_meta(manifest: Manifest) -> ObjectMeta:
    """Read the metadata of any object, without the fields that cannot be read; never raises.

    Use it for work on an object whose spec cannot be read, such as removing its finalizer.
    """
    meta = manifest.get("metadata")
    body = {"name": "", **meta} if isinstance(meta, Mapping) else {"name": ""}
    try:
        return structure(ObjectMeta, body)
    except ValidationProblems as error:
        unreadable = {problem.path.split("[")[0].split(".")[0] for problem in error.problems}
        return structure(ObjectMeta, {"name": "", **{k: v for k, v in body.items() if k not in unreadable}})


def read_own_conditions(manifest: Manifest, types: Container[str] | None = None) -> tuple[Condition, ...]:
    """Read an object's status conditions of the types in `types`, or of all types if that is None. Malformed ones are
    left out. Never raises.
    """
    readable = map(_condition, conditions_of(manifest))
    return tuple(condition for condition in readable if condition and (types is None or condition.type in types))


def _condition(value: Any) -> Condition | None:
    try:
        return structure(Condition, value)
    except ValidationProblems:
        return None
