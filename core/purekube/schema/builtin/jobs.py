"""Schemas of Job and CronJob."""

from typing import Final

from purekube.apimachinery.manifest import Kind
from purekube.schema.builtin.common_types import CONDITIONS, EMBEDDED_META, LABEL_SELECTOR, OBJECT_REFERENCE
from purekube.schema.builtin.document import BuiltIn
from purekube.schema.builtin.openapi import BOOL, INT32, INT64, STRING, TIME, choice, each, items, obj, unique
from purekube.schema.builtin.pod_schema import POD_TEMPLATE

_POLICY_RULE: Final = obj(
    "action",
    action=STRING,
    onExitCodes=obj("operator", "values", containerName=STRING, operator=STRING, values=unique(INT32)),
    onPodConditions=items(obj("type", type=STRING, status=STRING)),
)
JOB_SPEC: Final = obj(
    "template",
    activeDeadlineSeconds=INT64,
    **each(INT32, "backoffLimit backoffLimitPerIndex completions maxFailedIndexes parallelism ttlSecondsAfterFinished"),
    completionMode=choice("NonIndexed", "Indexed"),
    managedBy=STRING,
    manualSelector=BOOL,
    podFailurePolicy=obj("rules", rules=items(_POLICY_RULE)),
    podReplacementPolicy=choice("TerminatingOrFailed", "Failed"),
    selector=LABEL_SELECTOR,
    successPolicy=obj("rules", rules=items(obj(succeededCount=INT32, succeededIndexes=STRING))),
    suspend=BOOL,
    template=POD_TEMPLATE,
)
_JOB_STATUS: Final = obj(
    **each(INT32, "active failed ready succeeded terminating"),
    completedIndexes=STRING,
    completionTime=TIME,
    conditions={key: value for key, value in CONDITIONS.items() if not key.startswith("x-")}
    | {"x-kubernetes-list-type": "atomic", "x-kubernetes-patch-merge-key": "type"},
    failedIndexes=STRING,
    startTime=TIME,
    uncountedTerminatedPods=obj(failed=unique(STRING), succeeded=unique(STRING)),
)
JOB: Final = BuiltIn(Kind("batch", "v1", "Job", "jobs"), obj(spec=JOB_SPEC, status=_JOB_STATUS))
CRON_JOB: Final = BuiltIn(
    Kind("batch", "v1", "CronJob", "cronjobs"),
    obj(
        spec=obj(
            "schedule",
            "jobTemplate",
            concurrencyPolicy=choice("Allow", "Forbid", "Replace"),
            failedJobsHistoryLimit=INT32,
            jobTemplate=obj(metadata=EMBEDDED_META, spec=JOB_SPEC),
            schedule=STRING,
            startingDeadlineSeconds=INT64,
            successfulJobsHistoryLimit=INT32,
            suspend=BOOL,
            timeZone=STRING,
        ),
        status=obj(active=items(OBJECT_REFERENCE), lastScheduleTime=TIME, lastSuccessfulTime=TIME),
    ),
)
