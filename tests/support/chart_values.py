"""Values of the Helm chart, drawn as people write them: a part of what there is, the rest by default."""

from typing import Any, Final

from hypothesis import strategies as st

from vworkspace_app.install.options import Profile
from vworkspace_core.operations.approvals import BINDINGS

NAMES: Final = st.from_regex(r"[a-z][a-z0-9]{0,6}(-[a-z0-9]{1,4})?", fullmatch=True)
TEXTS: Final = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=8)
KEYS: Final = st.from_regex(r"[a-z]{1,5}(\.[a-z]{1,4}/[a-zA-Z]{1,5})?", fullmatch=True)
LABELS: Final = st.dictionaries(KEYS, st.from_regex(r"[A-Za-z0-9]{0,5}", fullmatch=True), max_size=2)
ANNOTATIONS: Final = st.dictionaries(KEYS, TEXTS, max_size=2)
QUANTITY: Final = st.sampled_from(["50m", "1", "128Mi", "2Gi"])


def _some(parts: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Any of these parts."""
    return st.fixed_dictionaries({}, optional=parts)


SETTINGS: Final = _some(
    {
        "allowedImages": st.lists(st.sampled_from(["registry.example.com/", "ghcr.io/a:1"]), max_size=2),
        "allowHttp": st.booleans(),
        "driftDetection": st.sampled_from(["enabled", "warn", "disabled"]),
        "forbiddenVersions": st.sampled_from(["", "1.0.0", "nginx@2.0.0,1.1.1"]),
        "jobSignatures": st.sampled_from(["auto", "required", "unsigned"]),
        "page": st.sampled_from(["none", "open", "token-review"]),
        "pageUrl": st.sampled_from(["", "https://ops.example.com/{{vw}}"]),
        "gracePeriod": st.sampled_from(["5s", "1m30s", "200ms", "0.1h", "2m500ms"]),
        "leaderElectResourceNamespace": st.one_of(st.just(""), NAMES),
        "logLevel": st.sampled_from(["debug", "info"]),
        "requiredClaimBindings": st.lists(st.sampled_from(sorted(BINDINGS)), unique=True),
        "disconnectedAfter": st.integers(10, 86_400),
        "workers": st.integers(1, 64),
        "writers": st.lists(st.sampled_from(["system:serviceaccount:a:b", "jane"]), max_size=2),
    }
)
DIGEST: Final = "sha256:" + "0a" * 32
PULLABLE: Final = {"image": {"repository": "ghcr.io/acme/vw", "digest": DIGEST}}
"""The least that a chart needs to be rendered."""
IMAGE: Final = st.builds(
    lambda image, more: {**image, **more},
    st.sampled_from(
        [
            {"repository": "ghcr.io/acme/vw", "tag": "1.0"},
            {"repository": "localhost/vw", "tag": "0.10", "digest": DIGEST},
            {"repository": "registry:5000/vw", "digest": DIGEST, "tag": ""},
        ]
    ),
    _some(
        {
            "pullPolicy": st.sampled_from(["", "Always", "IfNotPresent", "Never"]),
            "pullSecrets": st.lists(NAMES, max_size=2),
        }
    ),
)
CONTROL_PLANE: Final = st.one_of(
    _some({"url": st.sampled_from(["", "https://odoo.example.com/a?b=c&d"]), "clusterId": NAMES}),
    st.fixed_dictionaries({"enabled": st.just(False), "clusterId": NAMES}),
)
WEBHOOKS: Final = st.one_of(
    st.fixed_dictionaries({"enabled": st.booleans()}),
    st.fixed_dictionaries(
        {
            "enabled": st.booleans(),
            "certManager": st.just(False),
            "caBundle": TEXTS.map("-----BEGIN CERTIFICATE-----\n{}".format),
        },
    ),
)
TENANTS: Final = st.lists(
    st.fixed_dictionaries({"namespace": NAMES}, optional={"releaseRole": NAMES, "workflows": st.booleans()}),
    max_size=2,
    unique_by=lambda tenant: tenant["namespace"],
)
TERM: Final = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
values: Final = st.fixed_dictionaries(
    {"image": IMAGE},
    optional={
        "replicas": st.integers(0, 10),
        "shards": st.integers(1, 3),
        "controlPlane": CONTROL_PLANE,
        "profile": st.sampled_from([profile.value for profile in Profile]),
        "settings": SETTINGS,
        "extraArgs": st.lists(TEXTS, max_size=2),
        "extraVolumes": st.lists(st.just({"name": "t", "configMap": {"name": "templates"}}), max_size=1),
        "extraVolumeMounts": st.lists(st.just({"name": "t", "mountPath": "/etc/t", "readOnly": True}), max_size=1),
        "env": st.dictionaries(st.sampled_from(["A", "HTTP_PROXY", "Z_1"]), TEXTS, max_size=2),
        "proxy": _some({"https": TEXTS, "http": TEXTS, "none": st.just(".svc,10.0.0.0/8")}),
        "tenants": TENANTS,
        "releaseAccount": NAMES,
        "veleroNamespace": st.one_of(st.just(""), NAMES),
        "tenantRoles": st.booleans(),
        "ownerReferenceProtection": st.booleans(),
        "appliedBoxes": st.booleans(),
        "boxes": st.lists(st.fixed_dictionaries({"configMap": NAMES, "file": st.just("webapp.yaml")}), max_size=2),
        "webhooks": WEBHOOKS,
        "serviceMonitor": _some({"enabled": st.booleans(), "labels": LABELS}),
        "prometheusRule": _some({"enabled": st.booleans(), "labels": LABELS}),
        "networkPolicy": _some({"enabled": st.booleans()}),
        "serviceAccount": _some({"annotations": ANNOTATIONS}),
        "resources": _some(
            {
                "requests": st.dictionaries(st.sampled_from(["cpu", "memory"]), QUANTITY),
                "limits": st.one_of(st.none(), st.dictionaries(st.sampled_from(["cpu", "memory"]), QUANTITY)),
            }
        ),
        "nodeSelector": LABELS,
        "tolerations": st.lists(st.just({"key": "a", "operator": "Exists", "tolerationSeconds": 30}), max_size=1),
        "affinity": st.sampled_from(
            [{}, {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}}]
        ),
        "topologySpreadConstraints": st.lists(
            st.just({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}), max_size=1
        ),
        "priorityClassName": st.sampled_from(["", "system-cluster-critical"]),
        "podLabels": LABELS,
        "podAnnotations": ANNOTATIONS,
        "global": st.just({"of": "a chart above"}),
    },
)
"""A values file."""

EVERYTHING: Final[dict[str, Any]] = {
    "image": {
        "repository": "ghcr.io/acme/vw",
        "digest": DIGEST,
        "pullPolicy": "Always",
        "pullSecrets": ["pull"],
    },
    "shards": 2,
    "controlPlane": {"url": "https://odoo.example.com", "clusterId": "c-1"},
    "settings": {
        "allowedImages": ["registry.example.com/tools/"],
        "allowHttp": False,
        "workers": 4,
        "gracePeriod": "1m30s",
        "leaderElectResourceNamespace": "org-a",
        "logLevel": "debug",
        "pageUrl": "https://ops.example.com",
    },
    "extraArgs": ["--log-format=json"],
    "extraVolumes": [{"name": "t", "configMap": {"name": "templates", "optional": True}}],
    "extraVolumeMounts": [{"name": "t", "mountPath": "/etc/templates", "readOnly": True}],
    "env": {"A": "{{ .Values.a }}", "B": "yes"},
    "proxy": {"https": "http://proxy:3128", "none": ".svc"},
    "tenants": [{"namespace": "org-a"}, {"namespace": "org-b", "releaseRole": "edit", "workflows": True}],
    "veleroNamespace": "velero",
    "ownerReferenceProtection": True,
    "appliedBoxes": True,
    "boxes": [{"configMap": "webapp-1", "file": "webapp.yaml"}],
    "webhooks": {"enabled": True},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/a"}},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "vworkspace-operator"}},
        }
    ],
    "priorityClassName": "system-cluster-critical",
    "podLabels": {"team": "a"},
    "podAnnotations": {"a": "1"},
}
"""All that there is, once."""
