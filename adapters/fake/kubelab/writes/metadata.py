"""The rules of `metadata`: which empty fields are dropped, which values are valid, and which fields are immutable."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kubelab.model.definition import NameRule
from purekube.apimachinery.errors import StatusCause
from purekube.schema.causes import forbidden_value, invalid_value, required, too_long
from purekube.schema.structure import equal

# apimachinery: api/validation/objectmeta.go, TotalAnnotationSizeLimitB.
ANNOTATIONS_LIMIT: Final = 256 * 1024
"""The most bytes of all annotations of an object, keys and values (W-37)."""
# kubernetes: apis/core/helper/helpers.go, IsStandardFinalizerName.
_STANDARD_FINALIZERS: Final = frozenset(("orphan", "foregroundDeletion", "kubernetes"))

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SERVICE: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_QUALIFIED: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)

_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SERVICE_TEXT: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_QUALIFIED_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def tidy(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return metadata as kube-apiserver returns it: without nulls and empty values."""
    if all(metadata.values()) or all(_holds(value) for value in metadata.values()):
        return metadata
    return {key: value for key, value in metadata.items() if _holds(value)}


def _holds(value: Any) -> bool:
    # The JSON tags of Go's ObjectMeta say omitempty for every field.
    return value is not None and value not in ("", {}, [])


def check_metadata(metadata: Mapping[str, Any], rule: NameRule, *, namespaced: bool) -> list[StatusCause]:
    """Return the problems of the `metadata` of a new object.

    Its name, labels, annotations, owner references and finalizers are checked. `rule` is the rule for names of the
    object's kind. The namespace is checked, too, if the kind is `namespaced`.
    """
    causes: list[StatusCause] = []
    if metadata.get("generateName"):
        prefix = metadata["generateName"]
        # The prefix alone may end with a hyphen, since five characters follow it (W-35).
        texts = name_problems(prefix.rstrip("-") or "a", rule)
        causes += [invalid_value("metadata.generateName", prefix, text) for text in texts]
    name = metadata.get("name")
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    else:
        causes += [invalid_value("metadata.name", name, text) for text in name_problems(name, rule)]
    if namespaced and metadata.get("namespace"):
        space = metadata["namespace"]
        causes += [invalid_value("metadata.namespace", space, text) for text in name_problems(space, NameRule.LABEL)]
    return causes + check_common(metadata)


def check_common(metadata: Mapping[str, Any], settled: Mapping[str, Any] = {}) -> list[StatusCause]:
    """Return the problems of the labels, annotations, owner references and finalizers in any write.

    `settled` is the metadata of an object that was found valid. Of these four fields, those that are the same Python
    object in `settled` are not checked again.
    """
    causes: list[StatusCause] = []
    for key, check in _COMMON:
        value = metadata.get(key)
        if value and value is not settled.get(key):
            causes += check(value)
    return causes


def name_problems(name: str, rule: NameRule) -> list[str]:
    """Return the problems of an object's `name` under the `rule` for names of its kind.

    Each problem is the text of an error message. The list is empty if the name is valid.
    """
    match rule:
        case NameRule.SUBDOMAIN:
            return _name(name, _SUBDOMAIN, 253, _SUBDOMAIN_TEXT)
        case NameRule.LABEL:
            return _name(name, _LABEL, 63, _LABEL_TEXT)
        case NameRule.SERVICE:
            return _name(name, _SERVICE, 63, _SERVICE_TEXT)
        case NameRule.SEGMENT:
            # apimachinery: api/validation/path/name.go, ValidatePathSegmentName refuses only names that would change a
            # URL's path.
            if name in (".", ".."):
                return [f"may not be '{name}'"]
            return [f"may not contain '{bad}'" for bad in ("/", "%") if bad in name]


def _name(name: str, pattern: re.Pattern[str], limit: int, text: str) -> list[str]:
    problems = [f"must be no more than {limit} bytes"] if len(name) > limit else []
    return problems if pattern.fullmatch(name) else [*problems, text]


def qualified_problems(key: str) -> list[str]:
    """Return the problems of a label key, annotation key or finalizer, each as the text of an error message."""
    prefix, slash, name = key.rpartition("/")
    problems: list[str] = []
    if "/" in prefix:
        # The message speaks of a label even for annotations and finalizers: apimachinery: api/validate/content/kube.go,
        # IsLabelKey.
        prefixed = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_QUALIFIED_RULE} {prefixed}"]
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        problems += [f"prefix part {text}" for text in _name(prefix, _SUBDOMAIN, 253, _SUBDOMAIN_TEXT)]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > 63:
        problems.append("name part must be no more than 63 bytes")
    if not _QUALIFIED.fullmatch(name):
        problems.append(f"name part {_QUALIFIED_RULE}")
    return problems


def label_value_problems(value: str) -> list[str]:
    """Return the problems of a label's value, each as the text of an error message."""
    # apimachinery: api/validate/content/kube.go counts bytes; a character of two bytes is refused by the pattern
    # anyway.
    problems = ["must be no more than 63 bytes"] if len(value.encode()) > 63 else []
    return problems if not value or _QUALIFIED.fullmatch(value) else [*problems, _VALUE_TEXT]


def qualified_causes(name: str | None, path: str) -> Iterable[StatusCause]:
    """Yield the problems of a name that may have a prefix, such as `example.com/part`. None means that it is absent."""
    for text in qualified_problems(name) if name is not None else ():
        yield invalid_value(path, name, text)


def label_causes(labels: Mapping[str, str], path: str = "metadata.labels") -> Iterable[StatusCause]:
    """Yield the problems of labels, whose place in the object is `path`."""
    for key, value in labels.items():
        yield from qualified_causes(key, path)
        for text in label_value_problems(value):
            yield invalid_value(path, value, text)


def annotation_causes(annotations: Mapping[str, str], path: str = "metadata.annotations") -> Iterable[StatusCause]:
    """Yield the problems of annotations, whose place in the object is `path`."""
    for key in annotations:
        # kube-apiserver lower-cases keys of annotations before it checks them, so prefixes may have capitals here and
        # not in labels.
        for text in qualified_problems(key.lower()):
            yield invalid_value(path, key, text)
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > ANNOTATIONS_LIMIT:
        yield too_long(path, ANNOTATIONS_LIMIT)


def _check_owners(owners: Iterable[Mapping[str, Any]]) -> Iterable[StatusCause]:
    """Return the problems of owner references: missing fields, and more than one controller (W-34)."""
    controller = ""
    where = "metadata.ownerReferences"
    for owner in owners:
        # The paths have no index, and the reason is not Required: apimachinery: api/validation/objectmeta.go,
        # validateOwnerReference.
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                text = "version must not be empty" if key == "apiVersion" else "must not be empty"
                yield invalid_value(f"{where}.{key}", owner.get(key) or "", text)
        # apimachinery's `BannedOwners` lists this one kind, and only in the core group.
        if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
            yield invalid_value(where, dict(owner), "/v1, Kind=Event is disallowed from being an owner")
        if owner.get("controller"):
            mine = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                detail = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {mine}"
                )
                yield invalid_value(where, [dict(reference) for reference in owners], detail)
            else:
                controller = mine


def _check_finalizers(finalizers: Iterable[str]) -> Iterable[StatusCause]:
    names = list(finalizers)
    for name in names:
        yield from qualified_causes(name, "metadata.finalizers")
    # The garbage collector could not obey both (apimachinery: api/validation/objectmeta.go, ValidateFinalizers).
    if {"orphan", "foregroundDeletion"} <= set(names):
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        yield invalid_value("metadata.finalizers", names, detail)


_COMMON: Final[tuple[tuple[str, Callable[[Any], Iterable[StatusCause]]], ...]] = (
    ("labels", label_causes),
    ("annotations", annotation_causes),
    ("ownerReferences", _check_owners),
    ("finalizers", _check_finalizers),
)


def check_kube_finalizers(finalizers: Iterable[str]) -> list[StatusCause]:
    """Return the problems of finalizers that have neither a domain and a path nor one of Kubernetes' own names."""
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid_value(f"metadata.finalizers[{index}]", name, detail)
        for index, name in enumerate(finalizers)
        if "/" not in name and name not in _STANDARD_FINALIZERS
    ]


def check_metadata_update(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[StatusCause]:
    """Return the problems of an update: changed immutable fields, or new finalizers on an object that is being deleted.

    The rules are S-09, S-75 and S-76.
    """
    causes = [
        invalid_value(f"metadata.{key}", new.get(key), "field is immutable")
        for key in ("name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds")
        if not equal(new.get(key), old.get(key))
    ]
    fresh = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
    if old.get("deletionTimestamp") and fresh:
        listed = ", ".join(f'"{name}"' for name in fresh)
        # The message has the names as Go's `%#v` prints them, in alphabetical order (ValidateNoNewFinalizers).
        detail = "no new finalizers can be added if the object is being deleted, found new finalizers "
        causes.append(forbidden_value("metadata.finalizers", f"{detail}[]string{{{listed}}}"))
    return causes


def finalizer_warnings(new: Mapping[str, Any], old: Mapping[str, Any]) -> tuple[str, ...]:
    """Return kube-apiserver's warnings about finalizers without a domain and path that are in `new` but not in `old`.

    `new` and `old` are the object's metadata after and before the write. Such finalizers may clash with those of other
    programs.
    """
    fresh = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
    return tuple(
        f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name to avoid accidental conflicts '
        "with other finalizer writers"
        # apiextensions: registry/customresource/validator.go has one text for names without a dot and one for domains
        # without a path.
        if "." not in name
        else f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name including a path (/) to avoid '
        "accidental conflicts with other finalizer writers"
        for name in fresh
        if "/" not in name and name not in _STANDARD_FINALIZERS
    )


def unique_owners(metadata: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return metadata in which every owner reference occurs once, and a warning if a reference was repeated."""
    owners = metadata.get("ownerReferences")
    if not isinstance(owners, list) or len(owners) < 2:
        return metadata, ()
    references: list[Any] = []
    repeated: list[str] = []
    for owner in owners:
        # apiserver: handlers/rest.go, dedupOwnerReferences: only references that are equal in every field are
        # duplicates; two with one uid stay.
        if any(equal(owner, reference) for reference in references):
            repeated.append(owner.get("uid", ""))
        else:
            references.append(owner)
    if not repeated:
        return metadata, ()
    text = (
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may "
        "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
        f"{', '.join(repeated)}"
    )
    return {**metadata, "ownerReferences": references}, (text,)
