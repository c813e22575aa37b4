"""Schemas of Deployment, StatefulSet and DaemonSet."""

from typing import Final

from purekube.apimachinery.manifest import Kind
from purekube.schema.builtin.common_types import CONDITIONS, EMBEDDED_META, LABEL_SELECTOR
from purekube.schema.builtin.document import BuiltIn
from purekube.schema.builtin.openapi import BOOL, INT32, INT64, INT_OR_STRING, STRING, each, items, obj
from purekube.schema.builtin.pod_schema import POD_TEMPLATE
from purekube.schema.builtin.volume_schema import CLAIM_SPEC

_ROLLING: Final = obj(maxSurge=INT_OR_STRING, maxUnavailable=INT_OR_STRING)
_CLAIM: Final = obj(metadata=EMBEDDED_META, spec=CLAIM_SPEC, apiVersion=STRING, kind=STRING)
_COUNTS: Final = {"observedGeneration": INT64, "collisionCount": INT32, "conditions": CONDITIONS}
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
