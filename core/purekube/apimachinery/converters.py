"""The cattrs converters from JSON to attrs classes: which JSON value becomes which attribute, and what is refused.

Nothing is coerced: `"5"` is not an integer and `1` not a boolean. Three converters share one set of hooks:

* `FAST` stops at the first value that does not fit, and does not report the path of this value,
* `TOLERANT` treats null as absent, skips unknown fields and collects every failure,
* `STRICT` is `TOLERANT` that also collects unknown fields.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin

import attrs
from cattrs import Converter, IterableValidationError, IterableValidationNote
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from purekube.apimachinery.fields import camel
from purekube.apimachinery.meta import ObjectMeta, OwnerReference
from purekube.apimachinery.openapi import inner_type
from purekube.apimachinery.problems import MOST_PROBLEMS, type_name

Hook = Callable[[Any, Any], Any]
T = TypeVar("T")

_OPEN: Final = frozenset({ObjectMeta, OwnerReference})
"""Classes that have only some of the fields that Kubernetes defines, so that `STRICT` permits further fields."""


def _must_be(what: str, value: Any) -> TypeError:
    return TypeError(f"must be {what}, not {type_name(value)}")


def _string(value: Any, _: Any) -> str:
    if type(value) is str or isinstance(value, str):
        return value
    raise _must_be("a string", value)


def _integer(value: Any, _: Any) -> int:
    if type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer():  # JSON does not distinguish 1 from 1.0, nor does the API server
        return int(value)
    raise _must_be("an integer", value)


def _number(value: Any, _: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value  # a whole number stays an integer: 1 is written again as it came
    raise _must_be("a number", value)


def _integer_or_string(value: Any, _: Any) -> int | str:
    if isinstance(value, int | str) and not isinstance(value, bool):
        return value
    raise _must_be("an integer or a string", value)


def _literal(value: Any, cls: Any) -> Any:
    if value in get_args(cls):
        return value
    raise ValueError(f"must be one of {', '.join(map(str, get_args(cls)))}, not {value!r}")


def _boolean(value: Any, _: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise _must_be("a boolean", value)


def _free_object(value: Any, _: Any) -> Mapping[str, Any]:
    if type(value) is dict or isinstance(value, Mapping):
        return value
    raise _must_be("an object", value)


def _string_map(value: Any, _: Any) -> Mapping[str, str]:
    for text in _free_object(value, _).values():
        if not isinstance(text, str):
            raise _must_be("an object of strings; one value is", text)
    return value  # type: ignore[no-any-return]


@cache
def _members(cls: type[StrEnum]) -> Mapping[Any, StrEnum]:
    # Calling an enum class takes more than twice as long as looking its member up.
    return {member.value: member for member in cls}


def _member(value: Any, cls: type[StrEnum]) -> StrEnum:
    if not isinstance(value, str):
        raise _must_be(f"one of {', '.join(cls)}", value)
    if (member := _members(cls).get(value)) is None:
        raise ValueError(f"must be one of {', '.join(cls)}, not {value!r}")
    return member


def _optional_hook(union: Any, converter: Converter) -> Hook:
    inner, _ = inner_type(union)
    hook = converter.get_structure_hook(inner)
    return lambda value, _: None if value is None else hook(value, inner)


def _list_hook(cls: Any, converter: Converter) -> Hook:
    """Return the cattrs hook that reads JSON as `list[X]`, the type of lists in mutable classes. Frozen classes use
    `tuple[X, ...]`.
    """
    hook = _tuple_hook(cls, converter)
    return lambda value, _: list(hook(value, _))


def _mapping_hook(cls: Any, converter: Converter) -> Hook:
    inner = get_args(cls)[1]
    hook = converter.get_structure_hook(inner)

    def members(value: Any, _: Any) -> dict[str, Any]:
        return {name: hook(item, inner) for name, item in _free_object(value, _).items()}

    def checked_members(value: Any, _: Any) -> dict[str, Any]:
        return _each(hook, _free_object(value, _).items(), "member", cls, inner)

    return checked_members if converter.detailed_validation else members


def _each(hook: Hook, items: Iterable[tuple[Any, Any]], word: str, cls: Any, inner: Any) -> dict[Any, Any]:
    """Return the `items` of a list or mapping, each read by `hook`, under their indexes or names.

    Raises IterableValidationError with the first `MOST_PROBLEMS` errors, each with a note of the item's place.
    """
    results, errors = {}, []
    for name, item in items:
        try:
            results[name] = hook(item, inner)
        except Exception as error:
            error.add_note(IterableValidationNote(f"{word} {name}", name, inner))
            errors.append(error)
            if len(errors) == MOST_PROBLEMS:
                break
    if errors:
        raise IterableValidationError("mapping" if word == "member" else "list", errors, cls)
    return results


def _tuple_hook(cls: Any, converter: Converter) -> Hook:
    inner = get_args(cls)[0]
    hook = converter.get_structure_hook(inner)

    def items(value: Any, _: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise _must_be("a list", value)
        return tuple([hook(item, inner) for item in value])

    def checked_items(value: Any, _: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise _must_be("a list", value)
        return tuple(_each(hook, enumerate(value), "item", cls, inner).values())

    return checked_items if converter.detailed_validation else items


def _renames(cls: type[Any]) -> dict[str, Any]:
    return {field.name: override(rename=camel(field.name)) for field in attrs.fields(cls)}


def _fast_class_hook(cls: type[Any], converter: Converter) -> Hook:
    # mypy cannot follow keyword overrides through cattrs' signature, hence the Any.
    make: Any = make_dict_structure_fn
    structure = make(cls, converter, _cattrs_use_linecache=False, **_renames(cls))

    def hook(value: Any, _: Any) -> Any:
        if type(value) is dict or isinstance(value, Mapping):
            return structure(value)
        raise _must_be("an object", value)

    return hook


def _patient_class_hook(cls: type[Any], converter: Converter, *, strict: bool) -> Hook:
    make: Any = make_dict_structure_fn
    structure = make(
        cls,
        converter,
        _cattrs_use_linecache=False,
        _cattrs_forbid_extra_keys=strict and cls not in _OPEN,
        **_renames(cls),
    )
    known = frozenset(camel(field.name) for field in attrs.fields(cls))

    def hook(value: Any, _: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _must_be("an object", value)
        return structure({name: item for name, item in value.items() if item is not None or name not in known})

    return hook


def _is_tuple(cls: Any) -> bool:
    return get_origin(cls) is tuple and len(get_args(cls)) == 2 and get_args(cls)[1] is Ellipsis


def _is_list(cls: Any) -> bool:
    return get_origin(cls) in (list, Sequence)


def _is_literal(cls: Any) -> bool:
    return get_origin(cls) is Literal


def _is_mapping(cls: Any) -> bool:
    return get_origin(cls) in (Mapping, dict)


def _is_integer_or_string(cls: Any) -> bool:
    return get_origin(cls) in (Union, UnionType) and set(get_args(cls)) - {NoneType} == {int, str}


def _converter(*, detailed: bool, strict: bool = False) -> Converter:
    converter = Converter(detailed_validation=detailed)
    converter.register_structure_hook(str, _string)
    converter.register_structure_hook(int, _integer)
    converter.register_structure_hook(bool, _boolean)
    converter.register_structure_hook(float, _number)
    converter.register_structure_hook(StrEnum, _member)
    converter.register_structure_hook_func(_is_integer_or_string, _integer_or_string)
    converter.register_structure_hook_func(_is_literal, _literal)
    converter.register_structure_hook_factory(_is_mapping, lambda cls: _mapping_hook(cls, converter))
    converter.register_structure_hook_factory(_is_list, lambda cls: _list_hook(cls, converter))
    converter.register_structure_hook_func(lambda cls: cls in (Mapping[str, Any], dict[str, Any]), _free_object)
    converter.register_structure_hook_func(lambda cls: cls == Mapping[str, str], _string_map)
    converter.register_structure_hook_factory(
        lambda cls: inner_type(cls)[1], lambda cls: _optional_hook(cls, converter)
    )
    converter.register_structure_hook_factory(_is_tuple, lambda cls: _tuple_hook(cls, converter))
    if detailed:
        converter.register_structure_hook_factory(
            attrs.has, lambda cls: _patient_class_hook(cls, converter, strict=strict)
        )
    else:
        converter.register_structure_hook_factory(attrs.has, lambda cls: _fast_class_hook(cls, converter))
    return converter


def _means_absent(field: "attrs.Attribute[Any]") -> bool:
    """Report whether JSON omits a field that has its default value.

    This is so for a default that is 0 or empty (null, "", an empty list or mapping), but not for the default False.
    """
    return isinstance(field.default, attrs.Factory) or (  # type: ignore[arg-type]
        field.default is not attrs.NOTHING and field.default is not False and not field.default
    )


def _is_empty(field: "attrs.Attribute[Any]") -> bool:
    """Report whether JSON omits a field that has its default value.

    This is so for an empty default (null, "", an empty list or mapping), but not for the defaults 0 and False.
    """
    return _means_absent(field) and field.default != 0


def _unstructure_class(
    cls: type[Any], converter: Converter, is_left_out: Callable[["attrs.Attribute[Any]"], bool]
) -> Callable[[Any], Any]:
    overrides = {
        field.name: override(rename=camel(field.name), omit_if_default=is_left_out(field))
        for field in attrs.fields(cls)
    }
    make: Any = make_dict_unstructure_fn
    function: Callable[[Any], Any] = make(cls, converter, _cattrs_use_linecache=False, **overrides)
    return function


def _unstructure_tuple(cls: Any, converter: Converter) -> Callable[[Any], Any]:
    hook = converter.get_unstructure_hook(get_args(cls)[0])
    return lambda items: [hook(item) for item in items]


def _unstructure_mapping(cls: Any, converter: Converter) -> Callable[[Any], Any]:
    inner = get_args(cls)[1]
    if inner in (Any, str):
        return lambda value: value  # a free object is shared, not copied
    hook = converter.get_unstructure_hook(inner)
    return lambda members: {name: hook(member) for name, member in members.items()}


def _with_unstructuring(
    converter: Converter, is_left_out: Callable[["attrs.Attribute[Any]"], bool] = _means_absent
) -> Converter:
    converter.register_unstructure_hook(StrEnum, lambda member: member.value)
    converter.register_unstructure_hook_factory(_is_mapping, lambda cls: _unstructure_mapping(cls, converter))
    converter.register_unstructure_hook_factory(_is_tuple, lambda cls: _unstructure_tuple(cls, converter))
    converter.register_unstructure_hook_factory(attrs.has, lambda cls: _unstructure_class(cls, converter, is_left_out))
    return converter


def strict_converter() -> Converter:
    """Return a new cattrs converter that refuses unknown fields and collects all errors, like the shared one `STRICT`.

    Callers may add hooks for their own types to it.
    """
    return _converter(detailed=True, strict=True)


def reporting_converter() -> Converter:
    """Return a new cattrs converter for the spec and status classes that users of the framework write.

    Like `FAST`, the default converter, it stops at the first error in the JSON that it reads. In the JSON that it
    makes, a field whose value and default are both 0 is present, so that a count of 0 is shown; `FAST` leaves out such
    a field.
    """
    return _with_unstructuring(_converter(detailed=False), _is_empty)


FAST: Final = _with_unstructuring(_converter(detailed=False))
TOLERANT: Final = _converter(detailed=True)
STRICT: Final = _converter(detailed=True, strict=True)
