"""The eleven templates that come with the operator (OPS-2), as the data that `load_template` takes."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from vworkspace_core.api.operation import OperationType
from vworkspace_core.operations.parameter_schemas import (
    ACCESS_MODES,
    ARGUMENT,
    ARGUMENT_NAME,
    COUNT,
    CRON,
    DURATION,
    ENV_NAME,
    IMAGE,
    LABEL,
    NAME,
    PERIOD,
    QUANTITY,
    RESOURCE,
    SECONDS,
    SEMVER,
    TEXT,
    ParameterSchema,
    about,
    listed,
    mapped,
    record,
)
from vworkspace_core.operations.templates import Template, Templates

_WORKFLOW: Final = record(
    ("workflowTemplate",),
    workflowTemplate=about("The WorkflowTemplate in the Operation's namespace that is run.", NAME),
    workflowTemplateParameters=about(
        "Arguments of the workflow; `targetName` and `targetNamespace` are added, and win.",
        mapped(ARGUMENT_NAME, ARGUMENT),
    ),
)
_KEY: Final[ParameterSchema] = {"type": "string", "minLength": 1, "maxLength": 253, "pattern": "^[-._a-zA-Z0-9]+$"}
_OPTIONAL: Final[ParameterSchema] = {"type": "boolean"}
_NAMED: Final = record(("name",), name=NAME, optional=_OPTIONAL)
_KEY_OF: Final = record(("name", "key"), name=NAME, key=_KEY, optional=_OPTIONAL)
_VALUE_FROM: Final[ParameterSchema] = {
    **record((), secretKeyRef=_KEY_OF, configMapKeyRef=_KEY_OF),
    "minProperties": 1,
    "maxProperties": 1,
}
_AMOUNT: Final[ParameterSchema] = {"type": "string", "maxLength": 16, "pattern": "^[1-9][0-9]{0,8}(m|[KMGT]i?)?$"}
_AMOUNTS: Final = record((), cpu=_AMOUNT, memory=_AMOUNT)
_JOB: Final = record(
    ("image",),
    image=about("Image of the one container; limited where the cluster allows only some.", IMAGE),
    command=about("Its entry point, as a list: no shell is put around it.", listed(TEXT)),
    args=about("Its arguments.", listed(TEXT)),
    env={
        "description": "Environment: a map of names to values, or a list of `name` with `value` or with `valueFrom`"
        " (`secretKeyRef` or `configMapKeyRef`: `name`, `key`). Secrets come by reference only.",
        "type": ["object", "array"],
        "propertyNames": ENV_NAME,
        "additionalProperties": TEXT,
        "items": record(("name",), name=ENV_NAME, value=TEXT, valueFrom=_VALUE_FROM),
        "maxProperties": 256,
        "maxItems": 256,
    },
    envFrom=about(
        "Whole Secrets (`secretRef: {name}`) or ConfigMaps (`configMapRef: {name}`) as environment.",
        listed({**record((), secretRef=_NAMED, configMapRef=_NAMED, prefix=ENV_NAME), "minProperties": 1}, most=16),
    ),
    resources=about(
        "CPU and memory of the container, as `requests` and `limits`; small ones unless given.",
        record((), requests=_AMOUNTS, limits=_AMOUNTS),
    ),
    serviceAccountName=about(
        "Another service account than `vworkspace-operation-runner`; the cluster has to allow it.", NAME
    ),
    timeoutSeconds=about("`activeDeadlineSeconds` of the Job.", SECONDS),
    backoffLimit=about(
        "How often a failed pod is replaced; 0 unless given.", {"type": "integer", "minimum": 0, "maximum": 10}
    ),
)
_RETAIN_COUNT: Final[ParameterSchema] = {"type": "integer", "minimum": 0, "maximum": 100_000}
_RETAIN: Final = record(
    (),
    hourly=_RETAIN_COUNT,
    daily=_RETAIN_COUNT,
    weekly=_RETAIN_COUNT,
    monthly=_RETAIN_COUNT,
    yearly=_RETAIN_COUNT,
    within=PERIOD,
    last=COUNT,
)

BUILTIN_TEMPLATES: Final[tuple[Mapping[str, Any], ...]] = (
    {
        "name": "backup.velero",
        "type": "Backup",
        "engine": "velero",
        "capability": "backup",
        "parameters": record(
            (),
            retention=about(
                "How long Velero keeps the backup, such as `30d` or `720h`, at most `3650d`; Velero's own default"
                " unless given.",
                DURATION,
            ),
            storageLocation=about("The BackupStorageLocation; Velero's default unless given.", NAME),
            snapshotClassName=about("The VolumeSnapshotClass whose driver cuts the snapshots.", NAME),
            includeNamespaces=about(
                "Namespaces to back up instead of the target's; each other one has to be gated and to agree, by its"
                " annotation `ops.vworkspace.io/velero-peers`.",
                {**listed(LABEL), "minItems": 1},
            ),
            includedResources=about("Only these resources; never the operator's own kinds.", listed(RESOURCE)),
            excludedResources=about(
                "Not these resources; the operator's own kinds are left out anyway.", listed(RESOURCE)
            ),
            snapshotVolumes=about(
                "Whether volumes are snapshotted; Velero's own default unless given.", {"type": "boolean"}
            ),
        ),
    },
    {
        "name": "restore.velero",
        "type": "Restore",
        "engine": "velero",
        "capability": "restore",
        "needsApproval": True,
        "parameters": record(
            ("backupName",),
            backupName=about(
                "The Backup to restore from; it has to be one of this application, by name and namespace.", NAME
            ),
            namespaceMapping=about(
                "From the namespaces in the backup to those to restore into; each other than the target's own has to be"
                " gated and to agree, by its annotation `ops.vworkspace.io/velero-peers`.",
                {**mapped(LABEL, LABEL), "minProperties": 1},
            ),
            restorePVs=about("Whether volumes are restored from their snapshots.", {"type": "boolean"}),
            existingResourcePolicy=about(
                "What happens to objects that exist: left as they are, or updated.", {"enum": ["none", "update"]}
            ),
        ),
    },
    {
        "name": "upgrade.helm",
        "type": "Upgrade",
        "engine": "helm",
        "capability": "upgrade",
        "parameters": {
            **record(
                (),
                targetVersion=about("The chart version to go to.", SEMVER),
                valuesPatch=about("Merge patch over the values; no secret material.", {"type": "object"}),
            ),
            "minProperties": 1,
        },
    },
    {
        "name": "migration.helmHookJob",
        "type": "Migration",
        "engine": "helmHookJob",
        "capability": "migration",
        "needsReadyTarget": True,
        "parameters": record(("hookName",), hookName=about("The chart's Job hook that is run once more.", NAME)),
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
        "parameters": record(
            ("source", "repository"),
            source=about("The PersistentVolumeClaim to back up.", NAME),
            repository=about("The Secret with restic's repository and password.", NAME),
            copyMethod=about(
                "How the claim is read; `Snapshot` unless given.", {"enum": ["Direct", "Clone", "Snapshot"]}
            ),
            schedule=about("Cron expression: the Operation then goes on until it is cancelled.", CRON),
            retain=about("What restic keeps.", _RETAIN),
        ),
    },
    {
        "name": "restore.volsync",
        "type": "Restore",
        "engine": "volsync",
        "capability": "restore",
        "parameters": record(
            ("destination", "repository"),
            destination=about("The PersistentVolumeClaim to restore into.", NAME),
            repository=about("The Secret with restic's repository and password.", NAME),
            copyMethod=about("How it is written; `Direct` unless given.", {"enum": ["Direct", "Snapshot"]}),
        ),
    },
    {
        "name": "backup.snapshot",
        "type": "Backup",
        "engine": "snapshot",
        "capability": "backup",
        "parameters": record(
            ("pvc",),
            pvc=about("The PersistentVolumeClaim to snapshot.", NAME),
            snapshotClassName=about("The VolumeSnapshotClass; the cluster's default unless given.", NAME),
        ),
    },
    {
        "name": "restore.snapshot",
        "type": "Restore",
        "engine": "snapshot",
        "capability": "restore",
        "parameters": record(
            ("snapshotName", "size"),
            snapshotName=about("The VolumeSnapshot to restore, in the same namespace.", NAME),
            size=about("Size of the new claim, at least the snapshot's.", QUANTITY),
            storageClassName=about("Its storage class; the cluster's default unless given.", NAME),
            accessModes=about("Its access modes; `ReadWriteOnce` unless given.", ACCESS_MODES),
        ),
    },
)
"""The data, as a YAML file of templates would hold it."""


@cache
def builtin_templates() -> Templates:
    """Return the built-in templates; checking their schemas takes a while, so they are loaded once."""
    return Templates().adding(BUILTIN_TEMPLATES)


def needs_of_engine(template: Template) -> Mapping[str, Any]:
    """Return a schema of the parameters that the engine of `template` needs, whatever the template requires.

    It is that of the engine's built-in template, except that keys unknown to the engine are allowed. For an engine that
    was added as code nothing is known: its templates have to require what it reads.
    """
    restores = template.type is not OperationType.BACKUP
    own = [item for item in builtin_templates().items if item.engine == template.engine]
    candidates = [item for item in own if len(own) == 1 or (item.type is not OperationType.BACKUP) == restores]
    if not candidates:
        return {}
    return {
        key: rule for key, rule in candidates[0].schema.items() if key not in ("additionalProperties", "minProperties")
    }
