"""The definitions of the built-in kinds of webhook configurations, and of admission policies with their bindings."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

from kubelab.admission.matching import GROUP, compile_condition
from kubelab.builtin.container_checks import repeated
from kubelab.builtin.definition_builder import built_in, filled_at
from kubelab.builtin.webhook_checks import webhook_causes
from kubelab.model.definition import Behaviour, Generation
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.manifest import Kind, Manifest
from purekube.cel import CelSyntaxError
from purekube.schema.builtin.schema_parts import BYTES, STRING, BuiltIn, OpenApi, items, keyed, obj, unique
from purekube.schema.causes import duplicate, invalid_value, required

_CLIENT: Final = obj("url", caBundle=BYTES, service=obj("namespace! name! path port:int32"))
_RULE: Final = obj("scope apiGroups:strings apiVersions:strings operations:strings resources:strings")
_CONDITIONS: Final = keyed(obj("name! expression!"), "name")
_WEBHOOK: Final = obj(
    "name! clientConfig! sideEffects! admissionReviewVersions!:strings failurePolicy matchPolicy timeoutSeconds:int32 "
    "namespaceSelector:selector objectSelector:selector",
    clientConfig=_CLIENT,
    matchConditions=_CONDITIONS,
    rules=items(_RULE),
)


def _read(manifest: Manifest, *, mutating: bool) -> Any:
    # pkg/apis/admissionregistration/v1/defaults.go.
    out = filled_at(
        manifest,
        "webhooks.*",
        failurePolicy="Fail",
        matchPolicy="Equivalent",
        namespaceSelector={},
        objectSelector={},
        timeoutSeconds=10,
        reinvocationPolicy="Never" if mutating else None,
    )
    return filled_at(filled_at(out, "webhooks.*.clientConfig.service", port=443), "webhooks.*.rules.*", scope="*")


def _check(manifest: Manifest) -> Iterator[StatusCause]:
    for index, name in repeated(webhook.get("name") for webhook in manifest.get("webhooks") or ()):
        yield duplicate(f"webhooks[{index}].name", name)
    for index, webhook in enumerate(manifest.get("webhooks") or ()):
        yield from webhook_causes(webhook, f"webhooks[{index}]")
        yield from _uncompiled(webhook, f"webhooks[{index}]", "matchConditions")


def _definition(kind: str, plural: str, *, mutating: bool) -> Any:
    fields = {**_WEBHOOK["properties"], **({"reinvocationPolicy": STRING} if mutating else {})}
    schema = obj(webhooks=keyed({**_WEBHOOK, "properties": fields}, "name"))
    return _kind(kind, plural, schema, partial(_read, mutating=mutating), _check)


def _kind(
    kind: str,
    plural: str,
    schema: OpenApi,
    read: Callable[[Manifest], Manifest],
    check: Callable[[Manifest], Iterable[StatusCause]],
) -> Any:
    return built_in(
        BuiltIn(Kind(GROUP, "v1", kind, plural, namespaced=False), schema),
        Behaviour(unconditional_update=False, generation=Generation.CONTENT, read=read, check=check),
        categories=("api-extensions",),
    )


def _uncompiled(part: Manifest, path: str, field: str) -> Iterator[StatusCause]:
    """Yield an error for each entry of the list `field` in `part` whose CEL expression does not compile.

    `path` is the path of `part` in the object.
    """
    for index, name in repeated(each.get("name", "") for each in part.get(field) or () if field == "matchConditions"):
        yield duplicate(f"{path}.{field}[{index}].name", name)
    for index, each in enumerate(part.get(field) or ()):
        yield from _error_of(each, f"{path}.{field}[{index}]")


def _error_of(part: Manifest, path: str, *, patches: bool = False) -> Iterator[StatusCause]:
    try:
        compile_condition(part["expression"], patches=patches)
    except CelSyntaxError as error:
        yield invalid_value(f"{path}.expression", part["expression"], f"compilation failed: {error}")


def _check_mutations(spec: Manifest) -> Iterator[StatusCause]:
    mutations = spec.get("mutations") or ()
    if not mutations:
        yield required("spec.mutations", "mutations must contain at least one item")
    for index, each in enumerate(mutations):
        path = f"spec.mutations[{index}].jsonPatch"
        if each.get("patchType") == "JSONPatch" and "jsonPatch" in each:
            yield from _error_of(each["jsonPatch"], path, patches=True)
        else:
            yield required(path, "the embedded API server knows mutations of the patchType JSONPatch only")


_RESOURCES: Final = obj("matchPolicy namespaceSelector:selector objectSelector:selector", resourceRules=items(_RULE))
_VALIDATION: Final = obj("expression! message reason")
_MUTATION: Final = obj("patchType!", jsonPatch=obj("expression!"))
_POLICY: Final = {"failurePolicy": STRING, "matchConditions": _CONDITIONS, "matchConstraints": _RESOURCES}


def _with_resources(manifest: Manifest, field: str, **defaults: Any) -> Any:
    resources = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
    out = filled_at(filled_at(manifest, f"spec.{field}", **resources), f"spec.{field}.resourceRules.*", scope="*")
    return filled_at(out, "spec", **defaults)


def _check_policy(manifest: Manifest) -> Iterator[StatusCause]:
    yield from _uncompiled(manifest["spec"], "spec", "matchConditions")
    yield from _uncompiled(manifest["spec"], "spec", "validations")


def _check_mutating(manifest: Manifest) -> Iterator[StatusCause]:
    yield from _uncompiled(manifest["spec"], "spec", "matchConditions")
    yield from _check_mutations(manifest["spec"])


def _policy_kind(
    kind: str,
    spec: OpenApi,
    check: Callable[[Manifest], Iterable[StatusCause]],
    field: str = "matchConstraints",
    **defaults: Any,
) -> Any:
    plural = f"{kind.lower()}s" if field == "matchResources" else f"{kind.lower().removesuffix('y')}ies"
    return _kind(kind, plural, obj("spec!", spec=spec), partial(_with_resources, field=field, **defaults), check)


def _binding_kind(kind: str, **fields: OpenApi) -> Any:
    spec = obj("policyName!", matchResources=_RESOURCES, **fields)
    return _policy_kind(kind, spec, _check_actions, "matchResources")


def _check_actions(manifest: Manifest) -> Iterator[StatusCause]:
    for index, action in repeated(manifest["spec"].get("validationActions") or ()):
        yield duplicate(f"spec.validationActions[{index}]", action)


POLICIES: Final = (
    _policy_kind(
        "ValidatingAdmissionPolicy", obj(validations=items(_VALIDATION), **_POLICY), _check_policy, failurePolicy="Fail"
    ),
    _binding_kind("ValidatingAdmissionPolicyBinding", validationActions=unique(STRING)),
    _policy_kind(
        "MutatingAdmissionPolicy",
        obj("reinvocationPolicy!", mutations=items(_MUTATION), **_POLICY),
        _check_mutating,
        failurePolicy="Fail",
    ),
    _binding_kind("MutatingAdmissionPolicyBinding"),
)

WEBHOOKS: Final = (
    _definition("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", mutating=False),
    _definition("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", mutating=True),
)
