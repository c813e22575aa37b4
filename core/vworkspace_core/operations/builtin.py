"""The eleven templates that come with the operator (OPS-2), as the data that `load_template` takes."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from vworkspace_core.kinds.application_instance import DNS_LABEL, DNS_SUBDOMAIN, EXACT_SEMVER
from vworkspace_core.operations.templates import Templates

__all__ = ["BUILTIN_TEMPLATES", "builtin_templates"]

Schema = dict[str, Any]

_LABEL: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 63, "pattern": DNS_LABEL}
_NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 253, "pattern": DNS_SUBDOMAIN}
_RESOURCE: Final[Schema] = {
    "type": "string",
    "maxLength": 253,
    "pattern": r"^(\*|[a-z][-a-z0-9]*(\.[a-z0-9][-a-z0-9.]*)?)$",
}
_DURATION: Final[Schema] = {
    "type": "string",
    "maxLength": 32,
    "pattern": "^(?=.)([0-9]{1,5}d)?([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$",
}
_QUANTITY: Final[Schema] = {
    "type": "string",
    "maxLength": 32,
    "pattern": r"^[1-9][0-9]{0,8}(\.[0-9]{1,3})?([KMGTPE]i?|k)?$",
}
_SECONDS: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": 31_536_000}
_SEMVER: Final[Schema] = {"type": "string", "maxLength": 128, "pattern": EXACT_SEMVER}
_CRON: Final[Schema] = {"type": "string", "maxLength": 100, "pattern": r"^(@[a-z]+|([-0-9*,/A-Z]+ ){4}[-0-9*,/A-Z]+)$"}
_IMAGE: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 512,
    "pattern": r"^[a-z0-9][a-zA-Z0-9._/:@-]*$",
}
_TEXT: Final[Schema] = {"type": "string", "maxLength": 32_768}
_ENV_NAME: Final[Schema] = {"type": "string", "maxLength": 253, "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}
# What Argo would take for a template of its own, and what would break a line, is no argument.
_ARGUMENT: Final[Schema] = {
    "type": ["string", "number", "boolean"],
    "maxLength": 4096,
    "pattern": r"^(?!.*\{\{)[^\x00-\x1f\x7f]*$",
}
_ACCESS_MODES: Final[Schema] = {
    "type": "array",
    "minItems": 1,
    "maxItems": 4,
    "items": {"enum": ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]},
}


def _list(items: Schema, most: int = 64) -> Schema:
    return {"type": "array", "items": items, "maxItems": most}


def _map(keys: Schema, values: Schema, most: int = 64) -> Schema:
    return {"type": "object", "propertyNames": keys, "additionalProperties": values, "maxProperties": most}


def _record(required: tuple[str, ...] = (), /, **properties: Schema) -> Schema:
    return {"type": "object", "additionalProperties": False, "required": list(required), "properties": properties}


_WORKFLOW: Final = _record(
    ("workflowTemplate",),
    workflowTemplate=_NAME,
    workflowTemplateParameters=_map({"maxLength": 63, "pattern": "^[A-Za-z0-9_][-A-Za-z0-9_]*$"}, _ARGUMENT),
)
_JOB: Final = _record(
    ("image",),
    image=_IMAGE,
    command=_list(_TEXT),
    args=_list(_TEXT),
    env={
        "type": ["object", "array"],
        "propertyNames": _ENV_NAME,
        "additionalProperties": _TEXT,
        "items": _record(("name", "value"), name=_ENV_NAME, value=_TEXT),
        "maxProperties": 256,
        "maxItems": 256,
    },
    serviceAccountName=_NAME,
    timeoutSeconds=_SECONDS,
    backoffLimit={"type": "integer", "minimum": 0, "maximum": 100},
)
_RETAIN_COUNT: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 100_000}
_RETAIN: Final = _record(
    (),
    hourly=_RETAIN_COUNT,
    daily=_RETAIN_COUNT,
    weekly=_RETAIN_COUNT,
    monthly=_RETAIN_COUNT,
    yearly=_RETAIN_COUNT,
    within={"type": "string", "maxLength": 32, "pattern": "^([0-9]{1,6}[ymdh])+$"},
    last={"type": "string", "maxLength": 8, "pattern": "^[0-9]+$"},
)
_COPY_METHOD: Final[Schema] = {"enum": ["Direct", "Clone", "Snapshot"]}

BUILTIN_TEMPLATES: Final[tuple[Mapping[str, Any], ...]] = (
    {
        "name": "backup.velero",
        "type": "Backup",
        "engine": "velero",
        "capability": "backup",
        "parameters": _record(
            (),
            retention=_DURATION,
            storageLocation=_NAME,
            snapshotClassName=_NAME,
            includeNamespaces={**_list(_LABEL), "minItems": 1},
            includedResources=_list(_RESOURCE),
            excludedResources=_list(_RESOURCE),
            snapshotVolumes={"type": "boolean"},
        ),
    },
    {
        "name": "restore.velero",
        "type": "Restore",
        "engine": "velero",
        "capability": "restore",
        "needsApproval": True,
        "parameters": _record(
            ("backupName",),
            backupName=_NAME,
            namespaceMapping={**_map(_LABEL, _LABEL), "minProperties": 1},
            restorePVs={"type": "boolean"},
            existingResourcePolicy={"enum": ["none", "update"]},
        ),
    },
    {
        "name": "upgrade.helm",
        "type": "Upgrade",
        "engine": "helm",
        "capability": "upgrade",
        "parameters": {**_record((), targetVersion=_SEMVER, valuesPatch={"type": "object"}), "minProperties": 1},
    },
    {
        "name": "migration.helmHookJob",
        "type": "Migration",
        "engine": "helmHookJob",
        "capability": "migration",
        "needsReadyTarget": True,
        "parameters": _record(("hookName",), hookName=_NAME),
    },
    {
        "name": "migration.workflow",
        "type": "Migration",
        "engine": "workflow",
        "capability": "migration",
        "needsReadyTarget": True,
        "parameters": _WORKFLOW,
    },
    {
        "name": "runCommand.job",
        "type": "RunCommand",
        "engine": "job",
        "capability": "runcommand",
        "needsReadyTarget": True,
        "parameters": _JOB,
    },
    {
        "name": "runbook.workflow",
        "type": "Runbook",
        "engine": "workflow",
        "capability": "runbook",
        "needsReadyTarget": True,
        "parameters": _WORKFLOW,
    },
    {
        "name": "backup.volsync",
        "type": "Backup",
        "engine": "volsync",
        "capability": "backup",
        "parameters": _record(
            ("source", "repository"),
            source=_NAME,
            repository=_NAME,
            copyMethod=_COPY_METHOD,
            schedule=_CRON,
            retain=_RETAIN,
        ),
    },
    {
        "name": "restore.volsync",
        "type": "Restore",
        "engine": "volsync",
        "capability": "restore",
        "parameters": _record(
            ("destination", "repository"),
            destination=_NAME,
            repository=_NAME,
            copyMethod={"enum": ["Direct", "Snapshot"]},
        ),
    },
    {
        "name": "backup.snapshot",
        "type": "Backup",
        "engine": "snapshot",
        "capability": "backup",
        "parameters": _record(("pvc",), pvc=_NAME, snapshotClassName=_NAME),
    },
    {
        "name": "restore.snapshot",
        "type": "Restore",
        "engine": "snapshot",
        "capability": "restore",
        "parameters": _record(
            ("snapshotName", "size"),
            snapshotName=_NAME,
            size=_QUANTITY,
            storageClassName=_NAME,
            accessModes=_ACCESS_MODES,
        ),
    },
)
"""The data, as a YAML file of templates would hold it."""


@cache
def builtin_templates() -> Templates:
    """The built-in templates, loaded; checking their schemas takes a while, so it is done once."""
    return Templates().adding(BUILTIN_TEMPLATES)
