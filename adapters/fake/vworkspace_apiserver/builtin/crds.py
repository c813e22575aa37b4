"""CustomResourceDefinition: its schema is compiled before it is accepted."""

from collections.abc import Mapping
from typing import Any, Final

from vworkspace_apiserver.builtin.build import built_in
from vworkspace_apiserver.builtin.pod_defaults import filled
from vworkspace_apiserver.model.behaviour import Behaviour, Generation, NameRule
from vworkspace_apiserver.model.definition import definitions_of_crd
from vworkspace_apiserver.model.failure import bad_request
from vworkspace_apiserver.writes.metadata import name_problems
from vworkspace_core.apimachinery.errors import StatusCause
from vworkspace_core.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from vworkspace_core.schema.builtin import crds as schemas
from vworkspace_core.schema.causes import invalid_value, required
from vworkspace_core.schema.keyword_types import mistyped_keywords
from vworkspace_core.schema.node import SchemaError

Manifest = Mapping[str, Any]


def _read(manifest: Manifest) -> Manifest:
    _require_readable_schemas(manifest)
    spec = filled(manifest.get("spec") or {}, conversion={"strategy": "None"})
    names = spec.get("names")
    if isinstance(names, Mapping) and isinstance(names.get("kind"), str):
        spec["names"] = filled(names, singular=names["kind"].lower(), listKind=names["kind"] + "List")
    return {**manifest, "spec": spec}


def _require_readable_schemas(manifest: Manifest) -> None:
    """Raise 400 for a schema whose words have other types than they may."""
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
    causes = _check_names(spec.get("group") or "", names, manifest["metadata"].get("name"))
    listed = [version.get("name") for version in versions]
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        causes.append(invalid_value("spec.versions", listed, text))
    if len(set(listed)) != len(listed):
        causes.append(invalid_value("spec.versions", listed, "must contain unique version names"))
    for index, version in enumerate(versions):
        causes += _check_version(version, f"spec.versions[{index}]")
    return causes or _compiled(manifest)


def _check_names(group: str, names: Mapping[str, Any], name: Any) -> list[StatusCause]:
    """The definition is named after its plural and group, and all its names can stand in a URL."""
    causes = [invalid_value("spec.group", group, text) for text in name_problems(group, NameRule.SUBDOMAIN)]
    if "." not in group:
        causes.append(invalid_value("spec.group", group, "should be a domain with at least one dot"))
    if name != f"{names.get('plural')}.{group}":
        causes.append(invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    for key in ("plural", "singular", "kind", "listKind"):
        text = str(names.get(key) or "")
        plain = text.lower() if key in ("kind", "listKind") else text
        problems = name_problems(plain, NameRule.SERVICE)
        causes += [invalid_value(f"spec.names.{key}", text, problem) for problem in problems]
    for index, short in enumerate(names.get("shortNames") or ()):
        problems = name_problems(short, NameRule.SERVICE)
        causes += [invalid_value(f"spec.names.shortNames[{index}]", short, problem) for problem in problems]
    return causes


def _check_version(version: Mapping[str, Any], path: str) -> list[StatusCause]:
    name = version.get("name") or ""
    causes = [invalid_value(f"{path}.name", name, text) for text in name_problems(name, NameRule.SERVICE)]
    if not (version.get("schema") or {}).get("openAPIV3Schema"):
        causes.append(required(f"{path}.schema.openAPIV3Schema", "schemas are required"))
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        where = f"{path}.additionalPrinterColumns[{index}]"
        if column.get("type") not in _COLUMN_TYPES:
            text = f"must be one of {','.join(_COLUMN_TYPES)}"
            causes.append(invalid_value(f"{where}.type", column.get("type"), text))
        if not str(column.get("jsonPath") or "").startswith("."):
            text = "must be a simple json path starting with ."
            causes.append(invalid_value(f"{where}.jsonPath", column.get("jsonPath"), text))
    return causes


def _compiled(manifest: Manifest) -> list[StatusCause]:
    try:
        definitions_of_crd(manifest)
    except SchemaError as error:
        return [invalid_value(problem.path, "", problem.message) for problem in error.problems]
    except (KeyError, TypeError):
        return []  # the schema of CustomResourceDefinition itself has said what is missing
    return []


def _check_update(new: Manifest, old: Manifest) -> list[StatusCause]:
    causes = _check(new)
    for path in (("group",), ("scope",), ("names", "kind"), ("names", "plural")):
        now, before = new["spec"], old["spec"]
        for step in path:
            now, before = now.get(step), before.get(step)
        if now != before:
            causes.append(invalid_value("spec." + ".".join(path), now, "field is immutable"))
    return causes


CRDS: Final = (
    built_in(
        schemas.CUSTOM_RESOURCE_DEFINITION,
        Behaviour(
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
