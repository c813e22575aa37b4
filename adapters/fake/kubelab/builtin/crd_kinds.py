"""The definition of the built-in kind CustomResourceDefinition.

A CRD is accepted only if its schemas can be compiled.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubelab.builtin.definition_builder import built_in, filled, filled_at
from kubelab.model.definition import Behaviour, Generation, NameRule, definitions_of_crd
from kubelab.model.failure import bad_request
from kubelab.writes.metadata import name_problems
from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.manifest import Manifest, get_path
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.schema.builtin import basic_schemas as schemas
from purekube.schema.causes import forbidden_value, invalid_value, required
from purekube.schema.keywords import mistyped_keywords
from purekube.schema.node import SchemaError


def _read(manifest: Manifest) -> Manifest:
    _require_readable_schemas(manifest)
    spec = filled(manifest.get("spec") or {}, conversion={"strategy": "None"})
    spec = filled_at(spec, "conversion.webhook.clientConfig.service", port=443)
    names = spec.get("names")
    if isinstance(names, Mapping) and isinstance(names.get("kind"), str):
        spec["names"] = filled(names, singular=names["kind"].lower(), listKind=names["kind"] + "List")
    return _with_stored_versions({**manifest, "spec": spec})


def _with_stored_versions(manifest: Manifest) -> Manifest:
    """Return the CRD with its storage version in `status.storedVersions` if that list is empty."""
    status = manifest.get("status")
    # apiextensions: apis/apiextensions/v1/defaults.go: an empty list is filled in. Here an absent one waits for the
    # controller, which writes it at once.
    if not isinstance(status, Mapping) or status.get("storedVersions") != []:
        return manifest
    stored = [version.get("name") for version in manifest["spec"].get("versions") or () if version.get("storage")]
    return {**manifest, "status": {**status, "storedVersions": stored}}


def _require_readable_schemas(manifest: Manifest) -> None:
    """Raise ApiFailure 400 for a schema in which a keyword has a value of the wrong JSON type."""
    for index, version in enumerate((manifest.get("spec") or {}).get("versions") or ()):
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        why = next(mistyped_keywords(schema, f"spec.versions[{index}].schema.openAPIV3Schema"), None)
        if why is not None:
            kind = CUSTOM_RESOURCE_DEFINITION
            text = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
            raise bad_request(f"{text}: json: cannot unmarshal: {why}")


_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")


def _check(manifest: Manifest) -> list[StatusCause]:
    spec = manifest.get("spec") or {}
    names, versions = spec.get("names") or {}, spec.get("versions") or []
    causes = [*_check_names(spec.get("group") or "", names, manifest["metadata"].get("name"))]
    listed = [version.get("name") for version in versions]
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        causes.append(invalid_value("spec.versions", listed, text))
    if len(set(listed)) != len(listed):
        causes.append(invalid_value("spec.versions", listed, "must contain unique version names"))
    for index, version in enumerate(versions):
        causes += _check_version(version, f"spec.versions[{index}]")
        # apiextensions: apis/apiextensions/v1/conversion.go: internally, a single version has its fields there.
        above = "spec" if len(versions) == 1 else f"spec.versions[{index}]"
        causes += [*_check_scale(version, above), *_check_selectable(version, above)]
    causes += _check_conversion(spec.get("conversion") or {})
    return causes or _compiled(manifest)


# apiextensions: apis/apiextensions/validation/validation.go validates the internal version, whose fields are those of
# v1beta1.
_WEBHOOK: Final = "spec.conversion.webhookClientConfig"
_REVIEWS: Final = "spec.conversion.conversionReviewVersions"
"""The path of the accepted review versions, as kube-apiserver's messages have it. It differs from the path in `v1`."""


def _check_conversion(conversion: Mapping[str, Any]) -> list[StatusCause]:
    """Return the problems of `conversion`, a CRD's `spec.conversion`.

    It must name a webhook that can be called if its strategy is Webhook, and no webhook otherwise.
    """
    webhook = conversion.get("webhook") or {}
    client, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions")
    if conversion.get("strategy") != "Webhook":
        given = ((_WEBHOOK, client), (_REVIEWS, versions))
        text = "should not be set when strategy is not set to Webhook"
        return [forbidden_value(path, text) for path, value in given if value]
    causes = (
        [required(_WEBHOOK, "required when strategy is set to Webhook")] if client is None else _check_client(client)
    )
    if not versions:
        causes.append(required(_REVIEWS))
    elif not {"v1", "v1beta1"} & set(versions):
        causes.append(invalid_value(_REVIEWS, versions, "must include at least one of v1, v1beta1"))
    return causes


def _check_client(client: Mapping[str, Any]) -> list[StatusCause]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [required(_WEBHOOK, "exactly one of url or service is required")]
    if url is not None:
        scheme = str(url).partition("://")[0]
        text = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        return [] if scheme == "https" else [invalid_value(f"{_WEBHOOK}.url", scheme, text)]
    missing = [name for name in ("name", "namespace") if not get_path(service, name)]
    return [required(f"{_WEBHOOK}.service.name") for _ in missing]  # as kube-apiserver says of both


def _check_names(group: str, names: Mapping[str, Any], name: Any) -> Iterator[StatusCause]:
    """Yield the problems of a CRD's group, of its names (`spec.names`), and of the CRD's own name, `name`.

    A CRD must be named `<plural>.<group>`, and each of its names must be a valid part of a URL.
    """
    yield from (invalid_value("spec.group", group, text) for text in name_problems(group, NameRule.SUBDOMAIN))
    if "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")
    if name != f"{names.get('plural')}.{group}":
        yield invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    for key in ("plural", "singular", "kind", "listKind"):
        text = str(names.get(key) or "")
        # apiextensions: apis/apiextensions/validation/validation.go: a kind may have capitals, but has to be a DNS
        # label without them.
        plain = text.lower() if key in ("kind", "listKind") else text
        for problem in name_problems(plain, NameRule.SERVICE):
            yield invalid_value(f"spec.names.{key}", text, problem)
    for index, short in enumerate(names.get("shortNames") or ()):
        for problem in name_problems(short, NameRule.SERVICE):
            yield invalid_value(f"spec.names.shortNames[{index}]", short, problem)


def _check_version(version: Mapping[str, Any], path: str) -> Iterator[StatusCause]:
    name = version.get("name") or ""
    yield from (invalid_value(f"{path}.name", name, text) for text in name_problems(name, NameRule.SERVICE))
    if not (version.get("schema") or {}).get("openAPIV3Schema"):
        yield required(f"{path}.schema.openAPIV3Schema", "schemas are required")
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        where = f"{path}.additionalPrinterColumns[{index}]"
        if column.get("type") not in _COLUMN_TYPES:
            yield invalid_value(f"{where}.type", column.get("type"), f"must be one of {','.join(_COLUMN_TYPES)}")
        if not str(column.get("jsonPath") or "").startswith("."):
            text = "must be a simple json path starting with ."
            yield invalid_value(f"{where}.jsonPath", column.get("jsonPath"), text)


_SCALE_PATHS: Final = {
    "specReplicasPath": ((".spec.",), "under .spec"),
    "statusReplicasPath": ((".status.",), "under .status"),
    "labelSelectorPath": ((".spec.", ".status."), "under either .spec or .status"),
}
"""The paths of the scale subresource, each with where it must lead."""


def _check_scale(version: Mapping[str, Any], path: str) -> Iterator[StatusCause]:
    scale = get_path(version, "subresources", "scale")
    for key, (roots, where) in _SCALE_PATHS.items() if isinstance(scale, Mapping) else ():
        text, field = scale.get(key), f"{path}.subresources.scale.{key}"
        if not text:
            continue  # the schema of CustomResourceDefinition reports what is missing
        if not text.startswith("."):
            yield invalid_value(field, text, "must be a simple json path starting with .")
        elif not text.startswith(roots):
            yield invalid_value(field, text, f"should be a json path {where}")


def _check_selectable(version: Mapping[str, Any], path: str) -> Iterator[StatusCause]:
    """Yield the problems of a version's `selectableFields`: each must lead to a scalar field of the schema."""
    for index, selectable in enumerate(version.get("selectableFields") or ()):
        text, field = selectable.get("jsonPath") or "", f"{path}.selectableFields[{index}].jsonPath"
        node = get_path(version, "schema", "openAPIV3Schema") or {}
        for step in text.removeprefix(".").split("."):
            node = (node.get("properties") or {}).get(step) if isinstance(node, Mapping) else None
        if text and node is None:
            yield invalid_value(field, text, "is an invalid path: does not refer to a valid field")
        elif node is not None and node.get("type") not in ("string", "boolean", "integer"):
            why = "must point to a field of type string, boolean or integer."
            yield invalid_value(field, text, f"{why} Enum string fields and strings with formats are allowed.")


def _compiled(manifest: Manifest) -> list[StatusCause]:
    try:
        definitions_of_crd(manifest)
    except SchemaError as error:
        return [invalid_value(problem.path, "", problem.message) for problem in error.problems]
    except (KeyError, TypeError):
        return []  # the schema of CustomResourceDefinition has already reported what is missing
    return []


def _check_update(new: Manifest, old: Manifest) -> list[StatusCause]:
    causes = _check(new)
    for path in (("group",), ("scope",), ("names", "kind"), ("names", "plural")):
        now, before = new["spec"], old["spec"]
        for step in path:
            now, before = now.get(step), before.get(step)
        if now != before:
            causes.append(invalid_value("spec." + ".".join(path), now, "field is immutable"))
    return causes or _check_stored_versions(new)


def _check_stored_versions(manifest: Manifest) -> list[StatusCause]:
    """Return a problem for each version in `status.storedVersions` that the CRD no longer declares.

    Objects that are stored in such a version would become unreadable.
    """
    declared = [version.get("name") for version in manifest["spec"]["versions"]]
    stored = (manifest.get("status") or {}).get("storedVersions") or ()
    told = (
        "missing from spec.versions; {0} was previously a storage version, and must remain in spec.versions until a "
        "storage migration ensures no data remains persisted in {0} and removes {0} from status.storedVersions"
    )
    return [
        invalid_value(f"status.storedVersions[{index}]", name, told.format(name))
        for index, name in enumerate(stored)
        if name not in declared
    ]


CRDS: Final = (
    built_in(
        schemas.CUSTOM_RESOURCE_DEFINITION,
        Behaviour(
            unconditional_update=False,
            skeleton={"spec": {"names": {}}, "status": {}},
            generation=Generation.SPEC,
            read=_read,
            check=_check,
            check_update=_check_update,
        ),
        short_names=("crd", "crds"),
        categories=("api-extensions",),
    ),
)
