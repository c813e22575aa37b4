"""Schemas of Pod, ControllerRevision, Deployment, ReplicaSet, StatefulSet, DaemonSet, Job and CronJob."""

from typing import Final

from purekube.apimachinery.manifest import Kind
from purekube.schema.builtin import schema_parts as parts
from purekube.schema.builtin.pod_schemas import CLAIM_SPEC, POD_SPEC, POD_STATUS, POD_TEMPLATE
from purekube.schema.builtin.schema_parts import BuiltIn, choice, items, obj, unique

POD: Final = BuiltIn(Kind("", "v1", "Pod", "pods"), obj(spec=POD_SPEC, status=POD_STATUS))

_ROLLING: Final = obj("maxSurge:int-or-string maxUnavailable:int-or-string")
_CLAIM: Final = obj("apiVersion kind", metadata=parts.EMBEDDED_META, spec=CLAIM_SPEC, status=obj("phase"))
_COUNTS: Final = {"observedGeneration": parts.INT64, "collisionCount": parts.INT32, "conditions": parts.CONDITIONS}
CONTROLLER_REVISION: Final = BuiltIn(
    Kind("apps", "v1", "ControllerRevision", "controllerrevisions"),
    obj(
        "revision!:int64",
        data={"type": "object", "x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-map-type": "atomic"},
    ),
)
DEPLOYMENT: Final = BuiltIn(
    Kind("apps", "v1", "Deployment", "deployments"),
    obj(
        spec=obj(
            "selector!:selector template! paused:bool minReadySeconds:int32 progressDeadlineSeconds:int32 "
            "replicas:int32 revisionHistoryLimit:int32",
            strategy=obj("type", rollingUpdate=_ROLLING),
            template=POD_TEMPLATE,
        ),
        status=obj(
            "availableReplicas:int32 readyReplicas:int32 replicas:int32 terminatingReplicas:int32 "
            "unavailableReplicas:int32 updatedReplicas:int32",
            **_COUNTS,
        ),
    ),
)
REPLICA_SET: Final = BuiltIn(
    Kind("apps", "v1", "ReplicaSet", "replicasets"),
    obj(
        spec=obj("selector!:selector minReadySeconds:int32 replicas:int32", template=POD_TEMPLATE),
        status=obj(
            "replicas!:int32 availableReplicas:int32 fullyLabeledReplicas:int32 readyReplicas:int32 "
            "terminatingReplicas:int32 observedGeneration:int64 conditions:conditions"
        ),
    ),
)
STATEFUL_SET: Final = BuiltIn(
    Kind("apps", "v1", "StatefulSet", "statefulsets"),
    obj(
        spec=obj(
            "selector!:selector template! podManagementPolicy serviceName minReadySeconds:int32 replicas:int32 "
            "revisionHistoryLimit:int32",
            ordinals=obj("start:int32"),
            persistentVolumeClaimRetentionPolicy=obj("whenDeleted whenScaled"),
            template=POD_TEMPLATE,
            updateStrategy=obj("type", rollingUpdate=obj("partition:int32 maxUnavailable:int-or-string")),
            volumeClaimTemplates=items(_CLAIM),
        ),
        status=obj(
            "currentRevision updateRevision availableReplicas:int32 currentReplicas:int32 readyReplicas:int32 "
            "replicas:int32 updatedReplicas:int32",
            **_COUNTS,
        ),
    ),
)
DAEMON_SET: Final = BuiltIn(
    Kind("apps", "v1", "DaemonSet", "daemonsets"),
    obj(
        spec=obj(
            "selector!:selector template! minReadySeconds:int32 revisionHistoryLimit:int32",
            template=POD_TEMPLATE,
            updateStrategy=obj("type", rollingUpdate=_ROLLING),
        ),
        status=obj(
            "currentNumberScheduled:int32 desiredNumberScheduled:int32 numberAvailable:int32 "
            "numberMisscheduled:int32 numberReady:int32 numberUnavailable:int32 updatedNumberScheduled:int32",
            **_COUNTS,
        ),
    ),
)

_POLICY_RULE: Final = obj(
    "action!",
    onExitCodes=obj("operator! values! containerName", values=unique(parts.INT32)),
    onPodConditions=items(obj("type! status")),
)
JOB_SPEC: Final = obj(
    "template! managedBy manualSelector:bool suspend:bool backoffLimit:int32 backoffLimitPerIndex:int32 "
    "completions:int32 maxFailedIndexes:int32 parallelism:int32 ttlSecondsAfterFinished:int32 "
    "activeDeadlineSeconds:int64 selector:selector",
    completionMode=choice("NonIndexed", "Indexed"),
    podFailurePolicy=obj(rules=items(_POLICY_RULE)),
    podReplacementPolicy=choice("TerminatingOrFailed", "Failed"),
    successPolicy=obj("rules!", rules=items(obj("succeededIndexes succeededCount:int32"))),
    template=POD_TEMPLATE,
)
_JOB_STATUS: Final = obj(
    "completedIndexes failedIndexes active:int32 failed:int32 ready:int32 succeeded:int32 terminating:int32 "
    "completionTime:time startTime:time",
    conditions={key: value for key, value in parts.CONDITIONS.items() if not key.startswith("x-")}
    | {"x-kubernetes-list-type": "atomic", "x-kubernetes-patch-merge-key": "type"},
    uncountedTerminatedPods=obj(failed=unique(parts.STRING), succeeded=unique(parts.STRING)),
)
JOB: Final = BuiltIn(Kind("batch", "v1", "Job", "jobs"), obj(spec=JOB_SPEC, status=_JOB_STATUS))
CRON_JOB: Final = BuiltIn(
    Kind("batch", "v1", "CronJob", "cronjobs"),
    obj(
        spec=obj(
            "schedule! jobTemplate! timeZone suspend:bool failedJobsHistoryLimit:int32 "
            "successfulJobsHistoryLimit:int32 startingDeadlineSeconds:int64",
            concurrencyPolicy=choice("Allow", "Forbid", "Replace"),
            jobTemplate=obj(metadata=parts.EMBEDDED_META, spec=JOB_SPEC),
        ),
        status=obj("lastScheduleTime:time lastSuccessfulTime:time", active=items(parts.OBJECT_REFERENCE)),
    ),
)
