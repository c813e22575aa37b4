"""Schemas of Pod, ControllerRevision, Deployment, ReplicaSet, StatefulSet, DaemonSet, Job and CronJob."""

from typing import Final

from purekube.apimachinery.manifest import Kind
from purekube.schema.builtin.pod_schema import POD_SPEC, POD_STATUS, POD_TEMPLATE
from purekube.schema.builtin.schema_parts import (
    BOOL,
    CONDITIONS,
    EMBEDDED_META,
    INT32,
    INT64,
    INT_OR_STRING,
    LABEL_SELECTOR,
    OBJECT_REFERENCE,
    STRING,
    TIME,
    BuiltIn,
    choice,
    each,
    items,
    obj,
    unique,
)
from purekube.schema.builtin.volume_schema import CLAIM_SPEC

POD: Final = BuiltIn(Kind("", "v1", "Pod", "pods"), obj(spec=POD_SPEC, status=POD_STATUS))


_ROLLING: Final = obj(maxSurge=INT_OR_STRING, maxUnavailable=INT_OR_STRING)
_CLAIM: Final = obj(metadata=EMBEDDED_META, spec=CLAIM_SPEC, apiVersion=STRING, kind=STRING)
_COUNTS: Final = {"observedGeneration": INT64, "collisionCount": INT32, "conditions": CONDITIONS}
CONTROLLER_REVISION: Final = BuiltIn(
    Kind("apps", "v1", "ControllerRevision", "controllerrevisions"),
    obj(
        "revision",
        data={"type": "object", "x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-map-type": "atomic"},
        revision=INT64,
    ),
)
DEPLOYMENT: Final = BuiltIn(
    Kind("apps", "v1", "Deployment", "deployments"),
    obj(
        spec=obj(
            "selector",
            "template",
            **each(INT32, "minReadySeconds progressDeadlineSeconds replicas revisionHistoryLimit"),
            paused=BOOL,
            selector=LABEL_SELECTOR,
            strategy=obj(rollingUpdate=_ROLLING, type=STRING),
            template=POD_TEMPLATE,
        ),
        status=obj(
            **_COUNTS,
            **each(
                INT32,
                "availableReplicas readyReplicas replicas terminatingReplicas unavailableReplicas updatedReplicas",
            ),
        ),
    ),
)
REPLICA_SET: Final = BuiltIn(
    Kind("apps", "v1", "ReplicaSet", "replicasets"),
    obj(
        spec=obj(
            "selector",
            **each(INT32, "minReadySeconds replicas"),
            selector=LABEL_SELECTOR,
            template=POD_TEMPLATE,
        ),
        status=obj(
            "replicas",
            conditions=CONDITIONS,
            observedGeneration=INT64,
            **each(INT32, "availableReplicas fullyLabeledReplicas readyReplicas replicas terminatingReplicas"),
        ),
    ),
)
STATEFUL_SET: Final = BuiltIn(
    Kind("apps", "v1", "StatefulSet", "statefulsets"),
    obj(
        spec=obj(
            "selector",
            "template",
            **each(INT32, "minReadySeconds replicas revisionHistoryLimit"),
            ordinals=obj(start=INT32),
            persistentVolumeClaimRetentionPolicy=obj(whenDeleted=STRING, whenScaled=STRING),
            podManagementPolicy=STRING,
            selector=LABEL_SELECTOR,
            serviceName=STRING,
            template=POD_TEMPLATE,
            updateStrategy=obj(rollingUpdate=obj(maxUnavailable=INT_OR_STRING, partition=INT32), type=STRING),
            volumeClaimTemplates=items(_CLAIM),
        ),
        status=obj(
            **_COUNTS,
            **each(INT32, "availableReplicas currentReplicas readyReplicas replicas updatedReplicas"),
            currentRevision=STRING,
            updateRevision=STRING,
        ),
    ),
)
DAEMON_SET: Final = BuiltIn(
    Kind("apps", "v1", "DaemonSet", "daemonsets"),
    obj(
        spec=obj(
            "selector",
            "template",
            minReadySeconds=INT32,
            revisionHistoryLimit=INT32,
            selector=LABEL_SELECTOR,
            template=POD_TEMPLATE,
            updateStrategy=obj(rollingUpdate=_ROLLING, type=STRING),
        ),
        status=obj(
            **_COUNTS,
            **each(
                INT32,
                "currentNumberScheduled desiredNumberScheduled numberAvailable numberMisscheduled numberReady "
                "numberUnavailable updatedNumberScheduled",
            ),
        ),
    ),
)


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
