"""Admission: the rules that an ApplicationInstance or Operation must meet to be acted on (RUN-6, PULL-10).

The webhook, the agent (which applies objects for the control plane) and the reconciler all apply them, so that the
operator is as safe without the webhook. Rules that the CRD can express are declared in the attrs classes and checked by
`validation.check`; this module has the rest, which CEL cannot express.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

import attrs

from purekube.apimachinery.formats import DNS_SUBDOMAIN
from purekube.apimachinery.manifest import Manifest, canonical_json, get_path, same_json
from purekube.apimachinery.meta import ObjectMeta
from purekube.apimachinery.names import LONGEST_LABEL, bounded_name
from purekube.apimachinery.problems import Problem, ValidationProblems, first_of, index, join
from purekube.apimachinery.redaction import PLACEHOLDER
from purekube.apimachinery.secret_material import find_secret_material
from purekube.apimachinery.structuring import structure
from purekube.apimachinery.validation import check, check_parts, violations
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.classes import class_of
from vworkspace_core.api.cluster import Cluster
from vworkspace_core.api.labels import (
    CLUSTER_ID,
    MANAGED_BY,
    MANAGED_BY_VALUE,
    NAMESPACE_GATE,
    NAMESPACE_GATE_VALUE,
    RETRY,
    RETRY_RULE,
    cluster_id_of,
    is_managed,
    is_retry_token,
    namespace_is_managed,
)
from vworkspace_core.api.operation import EngineName, Operation
from vworkspace_core.api.remedies import manage_namespace_command

_MOST: Final = 32
_MOST_MEMBERS: Final = 1024
"""The most items of `env`, `command` and `args` each that are searched; the schema refuses longer lists (RUN-11)."""

_CURE: Final = (
    "holds secret material: put it into a Secret and name that, by env[].valueFrom.secretKeyRef {name, key} or by"
    " envFrom[].secretRef {name}"
)
_WORDS: Final = r"(?:password|passwd|passphrase|secret|token|(?:api|access|secret|private)[-_]?key)"
_NAME: Final = re.compile(rf"{_WORDS}\Z", re.IGNORECASE)
_NAMES_A_SECRET: Final = re.compile(r"\Aexisting", re.IGNORECASE)
_FLAG: Final = re.compile(rf"\A--?[\w.-]*{_WORDS}\Z", re.IGNORECASE)
# Words are searched only at their beginning: a search from every letter would take quadratic time.
_ASSIGNED: Final = re.compile(rf"(?<![\w.-])[\w.-]*{_WORDS}=(?P<value>\"[^\"]*\"|'[^']*'|[^\s;&|]*)", re.IGNORECASE)


def command_problems(parameters: Mapping[str, Any], path: str) -> tuple[Problem, ...]:
    """Return a problem for each place in `env`, `command` and `args` of an Operation's `parameters` that has a secret.

    A secret is a literal value of a variable or option whose name says so, such as `PASSWORD`, or a private key. `path`
    is the path of `parameters`, with which the paths of problems begin. At most 32 problems are returned.
    """
    return tuple(islice(_problems(parameters, path), _MOST))


def _problems(parameters: Mapping[str, Any], path: str) -> Iterator[Problem]:
    for where, name, value in islice(_environment(parameters.get("env"), join(path, "env")), _MOST_MEMBERS):
        if _is_secret(name, value):
            yield Problem(where, _CURE)
    for field in ("command", "args"):
        parameter = parameters.get(field)
        yield from _word_problems(
            parameter[:_MOST_MEMBERS] if isinstance(parameter, list | tuple) else (), join(path, field)
        )


def _environment(env: Any, path: str) -> Iterator[tuple[str, str, Any]]:
    if isinstance(env, Mapping):
        yield from ((join(path, str(name)), str(name), value) for name, value in env.items())
    elif isinstance(env, list | tuple):
        for number, variable in enumerate(env):
            if isinstance(variable, Mapping):
                yield join(index(path, number), "value"), str(variable.get("name", "")), variable.get("value")


def _is_secret(name: str, value: Any) -> bool:
    if not isinstance(value, str):
        return False
    named = _NAME.search(name) is not None and not _NAMES_A_SECRET.match(name)
    return (named and _is_literal(value)) or bool(find_secret_material(value))


def _is_literal(value: str) -> bool:
    """Report whether `value` is literal text: not empty, no placeholder for a secret, and without a `$` reference."""
    bare = value.strip().strip("\"'")
    return bare not in ("", PLACEHOLDER) and not bare.startswith("$")


def _word_problems(words: list[Any] | tuple[Any, ...], path: str) -> Iterator[Problem]:
    texts = [word if isinstance(word, str) else "" for word in words]
    for number, text in enumerate(texts):
        follows = number > 0 and _FLAG.match(texts[number - 1]) is not None and not text.startswith("-")
        assigned = any(_is_literal(match["value"]) for match in _ASSIGNED.finditer(text))
        if assigned or (follows and _is_literal(text)) or find_secret_material(text):
            yield Problem(index(path, number), _CURE)


@attrs.frozen
class AdmissionSettings:
    """The settings that limit admitted objects. Sizes are bytes of canonical JSON.

    The default sizes leave room for status, managedFields and an Operation's values patch below etcd's limit of 1.5 MiB
    per request.
    """

    allow_http: bool = False
    max_inline_bytes: int = 512 * 1024
    max_parameters_bytes: int = 256 * 1024


_DEFAULTS: Final = AdmissionSettings()
_NO_HTTP: Final = "must start with https://; http:// is not allowed unless the operator is started with --allow-http"


def admit(
    manifest: Manifest, old: Manifest | None = None, settings: AdmissionSettings = _DEFAULTS
) -> tuple[Problem, ...]:
    """Return every reason to refuse `manifest`, an object of the operator's kinds that is new or replaces `old`.

    An update that leaves the spec unchanged is always allowed, so that a finalizer can be removed and a status written
    even on an invalid object (RUN-6).
    """
    if old is not None and same_spec(manifest, old):
        return ()
    from vworkspace_core.api.codec import validate_strict  # slow to import, and only applied objects need it

    problems = validate_strict(manifest)
    return first_of((*problems, *_judge(manifest, old, settings)))


def stored_problems(
    manifest: Manifest, old: Manifest | None = None, settings: AdmissionSettings = _DEFAULTS
) -> tuple[Problem, ...]:
    """Return a problem for every rule that `manifest`, an object as the API server stores it, breaks.

    Unlike `admit`, this function also judges an object whose spec has not changed. The result is empty for kinds other
    than the operator's. With `old`, the object before an update, the rules on immutable fields are checked too. Unknown
    fields are no problem, because the API server prunes them.
    """
    cls = class_of(manifest)
    if cls is None:
        return ()
    try:
        value = structure(cls, manifest)
    except ValidationProblems as error:
        return first_of((*error.problems, *_judge_parts(cls, manifest, settings)))
    return first_of(_judge_value(value, old, settings))


def same_spec(manifest: Manifest, old: Manifest) -> bool:
    """Report whether the specs of two versions of an object are equal as JSON."""
    return same_json(get_path(manifest, "spec"), get_path(old, "spec"))


def _judge(manifest: Any, old: Manifest | None, settings: AdmissionSettings) -> Iterator[Problem]:
    cls = class_of(manifest)
    if cls is None:
        return
    try:
        value = structure(cls, manifest)
    except ValidationProblems:
        yield from _judge_parts(cls, manifest, settings)
        return
    yield from _judge_value(value, old, settings)


def _judge_value(
    value: ApplicationInstance | Operation | Cluster, old: Manifest | None, settings: AdmissionSettings
) -> Iterator[Problem]:
    match value:
        case ApplicationInstance():
            yield from check_application_instance(value, _readable(ApplicationInstance, old), settings)
        case Operation():
            yield from check_operation(value, _readable(Operation, old), settings)
        case Cluster():
            yield from check(value.spec, None, "spec")


def _judge_parts(cls: type[Any], manifest: Manifest, settings: AdmissionSettings) -> Iterator[Problem]:
    """Yield the problems of each part of `manifest`'s spec that can be read on its own.

    The function is called if the manifest as a whole cannot be read as an object of the class `cls`.
    """
    spec, spec_class = manifest.get("spec"), attrs.fields_dict(cls)["spec"].type
    if isinstance(spec, Mapping) and spec_class is not None:
        yield from check_parts(spec_class, spec, "spec")
    for path in (("values", "inline"), ("parameters", "valuesPatch")):
        where, value = ".".join(("spec", *path)), get_path(spec, *path)
        yield from _too_large(value, settings.max_inline_bytes, where) or _inline_secrets(value, where)


def _readable(cls: type[Any], old: Manifest | None) -> Any:
    """Return `old`, the object before an update, as an object of the class `cls`.

    Return None if `old` is absent or malformed, so that an update can correct a malformed object.
    """
    if old is None:
        return None
    try:
        return structure(cls, old)
    except ValidationProblems:
        return None


def check_application_instance(
    instance: ApplicationInstance, old: ApplicationInstance | None = None, settings: AdmissionSettings = _DEFAULTS
) -> tuple[Problem, ...]:
    """Return every rule of RES-1 and RES-7 that `instance` breaks, sorted by path.

    With `old`, the instance before an update, the rules on immutable fields are checked too.
    """
    return first_of(_application_instance(instance, old, settings))


def _application_instance(
    instance: ApplicationInstance, old: ApplicationInstance | None, settings: AdmissionSettings
) -> Iterator[Problem]:
    spec, meta = instance.spec, instance.metadata
    yield from check(spec, old.spec if old else None, "spec")
    yield from _name(meta)
    yield from _retry(meta)
    if spec.release and spec.release.namespace != meta.namespace:
        yield Problem("spec.release.namespace", f"must equal metadata.namespace ({meta.namespace})")
    if spec.chart and spec.chart.url.startswith("http://") and not settings.allow_http:
        yield Problem("spec.chart.url", _NO_HTTP)
    if spec.values and spec.values.inline is not None:
        too_large = _too_large(spec.values.inline, settings.max_inline_bytes, "spec.values.inline")
        yield from too_large or _inline_secrets(spec.values.inline, "spec.values.inline")


def check_operation(
    operation: Operation, old: Operation | None = None, settings: AdmissionSettings = _DEFAULTS
) -> tuple[Problem, ...]:
    """Return every rule of RES-2 that `operation` breaks, sorted by path.

    With `old`, the Operation before an update, the rules on immutable fields are checked too. The values patch of a
    helm Operation must not contain secrets (RES-7). The parameters' schema, which the template defines, is checked
    elsewhere (OPS-2).
    """
    return first_of(_operation(operation, old, settings))


def _operation(operation: Operation, old: Operation | None, settings: AdmissionSettings) -> Iterator[Problem]:
    spec = operation.spec
    yield from check(attrs.evolve(operation, status=type(operation.status)()), old)
    yield from _name(operation.metadata)
    if spec.parameters is not None:
        too_large = _too_large(spec.parameters, settings.max_parameters_bytes, "spec.parameters")
        yield from too_large
        if spec.engine is EngineName.HELM and not too_large:
            yield from _inline_secrets(spec.parameters.get("valuesPatch"), "spec.parameters.valuesPatch")
        if spec.engine is EngineName.JOB:
            yield from command_problems(spec.parameters, "spec.parameters")


def _name(meta: ObjectMeta) -> Iterator[Problem]:
    # An object with `generateName` has no name yet.
    rules = {"maxLength": 253, "pattern": DNS_SUBDOMAIN} if meta.name else {}
    yield from (Problem("metadata.name", message) for message in violations(meta.name, rules))


def _retry(meta: ObjectMeta) -> Iterator[Problem]:
    token = meta.annotations.get(RETRY, "")
    if token and not is_retry_token(token):
        shown = token if len(token) <= LONGEST_LABEL else f"one of {len(token)} characters"
        message = f"must be {RETRY_RULE}, such as 2026-06-01T12:00:00Z, not {shown!r}"
        yield Problem(join("metadata.annotations", RETRY), message)


def _too_large(value: Any, limit: int, path: str) -> tuple[Problem, ...]:
    """Return a problem if `value` exceeds `limit` bytes as JSON, or if it is nested too deeply to be measured."""
    try:
        size = len(canonical_json(value))
    except RecursionError:
        return (Problem(path, "is nested too deeply"),)
    return (Problem(path, f"must have at most {limit} bytes as JSON, not {size}"),) if size > limit else ()


def _inline_secrets(values: Any, path: str) -> tuple[Problem, ...]:
    message = f"holds secret material: use a Secret by secretRef, or the placeholder {PLACEHOLDER}"
    return tuple(Problem(where, message) for where in find_secret_material(values, path))


def check_managed_namespace(meta: ObjectMeta, namespace: Manifest | None, cluster_id: str) -> tuple[Problem, ...]:
    """Return the reasons why the operator of `cluster_id` must not act on an object in a namespace (RES-5, PULL-10).

    `meta` is the object's metadata. `namespace` is the manifest of its Namespace, or None if the Namespace does not
    exist.
    """
    return first_of(_managed_namespace(meta, namespace, cluster_id))


def _managed_namespace(meta: ObjectMeta, namespace: Manifest | None, cluster_id: str) -> Iterator[Problem]:
    if not namespace_is_managed(namespace):
        yield Problem(
            "metadata.namespace",
            f"{meta.namespace!r} is not labelled {NAMESPACE_GATE}={NAMESPACE_GATE_VALUE}:"
            f" {manage_namespace_command(meta.namespace, namespace)}",
        )
    if not is_managed(meta):
        yield Problem(join("metadata.labels", MANAGED_BY), f"must be {MANAGED_BY_VALUE}")
    if (given := cluster_id_of(meta)) != bounded_name(cluster_id):
        yield Problem(join("metadata.labels", CLUSTER_ID), f"must be {cluster_id}, not {given or 'absent'}")
