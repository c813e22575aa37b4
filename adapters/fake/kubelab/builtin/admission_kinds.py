"""The definitions of the built-in kinds of webhook configurations, and of admission policies with their bindings."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from kubelab.admission.matching import GROUP, compile_condition
from kubelab.builtin.definition_builder import built_in, filled
from kubelab.model.definition import Behaviour, Generation
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.manifest import Kind, Manifest
from purekube.cel import CelSyntaxError
from purekube.schema.builtin.schema_parts import (
    BYTES,
    STRING,
    BuiltIn,
    OpenApi,
    items,
    keyed,
    obj,
    unique,
)
from purekube.schema.causes import invalid_value, required

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


def _webhook(webhook: Any, mutating: bool) -> Any:
    if not isinstance(webhook, Mapping):
        return webhook
    out = filled(
        webhook,
        failurePolicy="Fail",
        matchPolicy="Equivalent",
        namespaceSelector={},
        objectSelector={},
        timeoutSeconds=10,
        reinvocationPolicy="Never" if mutating else None,
    )
    client = out.get("clientConfig")
    if isinstance(client, Mapping) and isinstance(client.get("service"), Mapping):
        out["clientConfig"] = {**client, "service": filled(client["service"], port=443)}
    if isinstance(out.get("rules"), list):
        out["rules"] = [filled(rule, scope="*") for rule in out["rules"]]
    return out


def _reader(mutating: bool) -> Any:
    def read(manifest: Manifest) -> Manifest:
        webhooks = manifest.get("webhooks")
        if not isinstance(webhooks, list):
            return manifest
        return {**manifest, "webhooks": [_webhook(webhook, mutating) for webhook in webhooks]}

    return read


def _check(manifest: Manifest) -> list[StatusCause]:
    causes = []
    for index, webhook in enumerate(manifest.get("webhooks") or ()):
        where = f"webhooks[{index}]"
        # apimachinery: util/validation/validation.go: the name of a webhook is a domain, unlike that of its
        # configuration.
        if len(webhook.get("name", "").split(".")) < 3:
            text = "should be a domain with at least three segments separated by dots"
            causes.append(invalid_value(f"{where}.name", webhook.get("name", ""), text))
        client = webhook.get("clientConfig") or {}
        if ("url" in client) == ("service" in client):
            causes.append(required(f"{where}.clientConfig", "exactly one of url or service is required"))
        causes += _uncompiled(webhook, where, "matchConditions")
        if webhook.get("sideEffects") not in ("None", "NoneOnDryRun"):
            causes.append(required(f"{where}.sideEffects", "must specify one of None, NoneOnDryRun"))
    return causes


def _definition(kind: str, plural: str, *, mutating: bool) -> Any:
    fields = {**_WEBHOOK["properties"], **({"reinvocationPolicy": STRING} if mutating else {})}
    schema = obj(webhooks=keyed({**_WEBHOOK, "properties": fields}, "name"))
    return _kind(kind, plural, schema, _reader(mutating), _check)


def _kind(
    kind: str,
    plural: str,
    schema: OpenApi,
    read: Callable[[Manifest], Manifest],
    check: Callable[[Manifest], list[StatusCause]],
) -> Any:
    return built_in(
        BuiltIn(Kind(GROUP, "v1", kind, plural, namespaced=False), schema),
        Behaviour(generation=Generation.CONTENT, read=read, check=check),
        categories=("api-extensions",),
    )


def _uncompiled(part: Manifest, path: str, field: str) -> Iterator[StatusCause]:
    """Yield an error for each entry of the list `field` in `part` whose CEL expression does not compile.

    `path` is the path of `part` in the object.
    """
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


def _with_resources(manifest: Manifest, field: str, **defaults: Any) -> Manifest:
    spec = manifest.get("spec")
    if not isinstance(spec, Mapping):
        return manifest
    found = spec.get(field)
    if isinstance(found, Mapping):
        found = filled(found, matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
        if isinstance(found.get("resourceRules"), list):
            found["resourceRules"] = [filled(rule, scope="*") for rule in found["resourceRules"]]
        spec = {**spec, field: found}
    return {**manifest, "spec": filled(spec, **defaults)}


def _check_policy(manifest: Manifest) -> list[StatusCause]:
    spec = manifest["spec"]
    return [*_uncompiled(spec, "spec", "matchConditions"), *_uncompiled(spec, "spec", "validations")]


def _check_mutating(manifest: Manifest) -> list[StatusCause]:
    spec = manifest["spec"]
    return [*_uncompiled(spec, "spec", "matchConditions"), *_check_mutations(spec)]


def _policy_kind(
    kind: str,
    spec: OpenApi,
    check: Callable[[Manifest], list[StatusCause]],
    field: str = "matchConstraints",
    **defaults: Any,
) -> Any:
    plural = f"{kind.lower()}s" if field == "matchResources" else f"{kind.lower().removesuffix('y')}ies"
    return _kind(kind, plural, obj("spec!", spec=spec), partial(_with_resources, field=field, **defaults), check)


def _binding_kind(kind: str, **fields: OpenApi) -> Any:
    spec = obj("policyName!", matchResources=_RESOURCES, **fields)
    return _policy_kind(kind, spec, lambda manifest: [], "matchResources")


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
