"""Hypothesis strategies for valid objects of our own kinds, for every test that needs some.

What they draw satisfies the CRDs and the admission rules; tests that want broken objects break these. Each is built
once: Hypothesis looks through all of a strategy before it first draws from it, which takes longer than most laws.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import attrs
from hypothesis import strategies as st

from purekube.apimachinery.meta import Condition, KeyRef, NameRef, ObjectMeta, ObjectName, OwnerReference
from purekube.apimachinery.redaction import PLACEHOLDER
from purekube.apimachinery.secret_material import is_secret_key
from vworkspace_core.api import labels
from vworkspace_core.api.application_instance import (
    ApplicationInstance,
    ApplicationInstanceSpec,
    ApplicationInstanceStatus,
    AppRef,
    Endpoint,
    IngressIntegration,
    Integrations,
    Mode,
    Release,
    ReleaseOverride,
    Toggle,
    Values,
    ValuesSource,
)
from vworkspace_core.api.chart import AppliedChart, ChartSource, SourceType
from vworkspace_core.api.cluster import Cluster, ClusterSpec, ClusterStatus, PolicySpec, SecuritySpec
from vworkspace_core.api.operation import (
    Approvals,
    EngineName,
    EngineRef,
    LogsRef,
    Operation,
    OperationSpec,
    OperationStatus,
    OperationType,
    Phase,
    TargetRef,
)
from vworkspace_core.api.vocabulary import TABLE

CLUSTER_ID = "cluster-prod-1"

_ALNUM = "abcdefghijklmnopqrstuvwxyz0123456789"


@cache
def dns_labels(max_size: int = 63) -> st.SearchStrategy[str]:
    """Names such as `nextcloud-myteam`."""
    inner = st.text(alphabet=_ALNUM + "-", max_size=max_size - 2)
    ends = st.sampled_from(_ALNUM)
    return st.one_of(
        st.sampled_from(["nextcloud-myteam", "a", "org-myteam"]).filter(lambda name: len(name) <= max_size),
        st.builds(lambda first, middle, last: first + middle + last, ends, inner, ends),
    )


@cache
def dns_subdomains() -> st.SearchStrategy[str]:
    """Names such as `cloud.example.test`."""
    return st.lists(dns_labels(20), min_size=1, max_size=4).map(".".join)


@cache
def uids() -> st.SearchStrategy[str]:
    return st.uuids(version=4).map(str)


@cache
def times() -> st.SearchStrategy[str]:
    """RFC 3339 in whole seconds, as the API server writes them."""
    return st.datetimes().map(lambda moment: moment.replace(microsecond=0).isoformat() + "Z")


@cache
def versions() -> st.SearchStrategy[str]:
    """Exact semantic versions, pre-releases and build metadata included."""
    numbers = st.integers(0, 999).map(str)
    core = st.tuples(numbers, numbers, numbers).map(".".join)
    suffix = st.sampled_from(["", "-rc.1", "-alpha", "+build.5", "-0.3.7+20130313144700"])
    return st.one_of(st.just("6.6.0"), st.builds(str.__add__, core, suffix))


@cache
def json_values(max_leaves: int = 12) -> st.SearchStrategy[Any]:
    """Any JSON, with text that hurts careless code."""
    texts = st.text(max_size=12) | st.sampled_from(["", "{{ }}", "a.b", "[0]", "null", "é", "\n"])
    leaves = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    return st.recursive(
        leaves | texts,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=max_leaves,
    )


@cache
def inline_values() -> st.SearchStrategy[dict[str, Any]]:
    """Chart values without secret material, though with keys that come close and with the placeholder."""
    keys = st.sampled_from(
        ["replicaCount", "image", "tag", "ingress", "enabled", "host", "passwordPolicy", "secretName", "tokens", "a.b"]
    ) | st.text(max_size=8).filter(lambda key: not is_secret_key(key))
    leaves = st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.text(max_size=12)
    hidden = st.dictionaries(
        st.sampled_from(["password", "dbSecret", "token", "apiKey"]), st.sampled_from(["", PLACEHOLDER]), max_size=1
    )

    def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        objects = st.dictionaries(keys, inner, max_size=4)
        return st.lists(inner, max_size=3) | st.builds(lambda a, b: {**a, **b}, objects, hidden)

    return st.dictionaries(keys, st.recursive(leaves, nested, max_leaves=10), max_size=5)


@cache
def object_metas(*, namespace: str | None = None, cluster_id: str = CLUSTER_ID) -> st.SearchStrategy[ObjectMeta]:
    """Metadata of a live, managed object."""
    own_labels = {labels.MANAGED_BY: labels.MANAGED_BY_VALUE, labels.CLUSTER_ID: cluster_id}
    return st.builds(
        ObjectMeta,
        name=dns_labels(),
        namespace=dns_labels() if namespace is None else st.just(namespace),
        uid=uids(),
        resource_version=st.integers(1, 10**9).map(str),
        generation=st.integers(1, 50),
        labels=st.dictionaries(st.sampled_from(["team", "tier"]), dns_labels(20), max_size=2).map(
            lambda extra: {**extra, **own_labels}
        ),
        annotations=st.dictionaries(
            st.sampled_from([labels.CAPABILITY_PREFIX + name for name in labels.CAPABILITIES]),
            st.sampled_from([engine.value for engine in EngineName]),
            max_size=3,
        ),
        finalizers=st.sampled_from([(), (labels.FINALIZER,), ("other.test/keep", labels.FINALIZER)]),
        owner_references=st.lists(owner_references(), max_size=1).map(tuple),
        creation_timestamp=times(),
        deletion_timestamp=st.none() | times(),
    )


@cache
def owner_references() -> st.SearchStrategy[OwnerReference]:
    return st.builds(
        OwnerReference,
        api_version=st.just("v1"),
        kind=st.just("ConfigMap"),
        name=dns_labels(),
        uid=uids(),
        controller=st.booleans(),
    )


@cache
def conditions(kind: str) -> st.SearchStrategy[tuple[Condition, ...]]:
    """Conditions of `kind` from the vocabulary, at most one of a type."""
    one = st.one_of(
        [
            st.builds(
                Condition,
                type=st.just(str(entry.type)),
                status=st.just(entry.status),
                reason=st.sampled_from(entry.reasons).map(str),
                message=st.text(max_size=20),
                last_transition_time=times(),
                observed_generation=st.integers(1, 50),
            )
            for entry in TABLE[kind]
        ]
    )
    return st.lists(one, max_size=4, unique_by=lambda condition: condition.type).map(tuple)


@cache
def chart_sources() -> st.SearchStrategy[ChartSource]:
    locations = st.sampled_from(
        [(SourceType.OCI, "oci://registry.example.test/charts"), (SourceType.HELM, "https://charts.example.test")]
    )
    secrets = st.none() | st.builds(NameRef, dns_labels())
    return st.builds(
        lambda where, name, version, secret, cert: ChartSource(where[0], where[1], name, version, secret, cert),
        locations,
        dns_labels(40),
        versions(),
        secrets,
        secrets,
    )


@cache
def values_of_instances() -> st.SearchStrategy[Values]:
    refs = st.builds(KeyRef, name=dns_labels(), key=st.sampled_from(["values.yaml", "values", "a_b"]))
    return st.one_of(
        inline_values().map(lambda inline: Values(ValuesSource.INLINE, inline=inline)),
        refs.map(lambda ref: Values(ValuesSource.SECRET_REF, secret_ref=ref)),
        refs.map(lambda ref: Values(ValuesSource.CONFIG_MAP_REF, config_map_ref=ref)),
    )


@cache
def integrations() -> st.SearchStrategy[Integrations]:
    toggles = st.none() | st.builds(Toggle, st.booleans())
    ingress = st.one_of(
        st.none(),
        st.just(IngressIntegration(enabled=False)),
        dns_subdomains().map(lambda host: IngressIntegration(enabled=True, host=host)),
    )
    return st.builds(Integrations, external_secrets=toggles, cert_manager=toggles, ingress=ingress)


@cache
def specs(*, mode: Mode | None = None, namespace: str = "org-myteam") -> st.SearchStrategy[ApplicationInstanceSpec]:
    """Valid specs of instances in `namespace`, of that mode or of any."""
    match mode:
        case None:
            return st.one_of([specs(mode=one, namespace=namespace) for one in Mode])
        case Mode.MANAGED:
            return _managed_specs(namespace)
        case Mode.PLACEHOLDER:
            return _placeholder_specs()


@cache
def _managed_specs(namespace: str) -> st.SearchStrategy[ApplicationInstanceSpec]:
    return st.builds(
        ApplicationInstanceSpec,
        app_ref=st.builds(AppRef, dns_labels()),
        mode=st.just(Mode.MANAGED),
        chart=chart_sources(),
        release=st.builds(
            Release, name=dns_labels(53), namespace=st.just(namespace), service_account_name=st.none() | dns_labels()
        ),
        values=st.none() | values_of_instances(),
        suspend=st.booleans(),
        integrations=st.none() | integrations(),
    )


@cache
def _placeholder_specs() -> st.SearchStrategy[ApplicationInstanceSpec]:
    return st.builds(
        ApplicationInstanceSpec,
        app_ref=st.builds(AppRef, dns_labels()),
        mode=st.just(Mode.PLACEHOLDER),
        suspend=st.booleans(),
        integrations=st.none() | integrations(),
    )


@cache
def instance_statuses() -> st.SearchStrategy[ApplicationInstanceStatus]:
    endpoints = st.builds(
        Endpoint, name=st.sampled_from(["ingress", "web"]), url=dns_subdomains().map("https://{}".format)
    )
    return st.builds(
        ApplicationInstanceStatus,
        observed_generation=st.none() | st.integers(0, 50),
        conditions=conditions("ApplicationInstance"),
        helm_release_ref=st.none() | st.builds(ObjectName, dns_labels(53), dns_labels()),
        last_applied_chart=st.none()
        | chart_sources().map(lambda c: AppliedChart(c.source_type, c.url, c.name, c.version)),
        last_reconcile_time=st.none() | times(),
        endpoints=st.lists(endpoints, max_size=2, unique_by=lambda endpoint: endpoint.name).map(tuple),
        release_override=st.none() | release_overrides(),
    )


@cache
def release_overrides() -> st.SearchStrategy[ReleaseOverride]:
    return st.builds(
        ReleaseOverride,
        operation=dns_labels(),
        uid=uids(),
        spec_hash=st.text("0123456789abcdef", min_size=16, max_size=16),
        version=st.none() | versions(),
        values_patch=st.none() | inline_values(),
    )


@cache
def application_instances(
    *, mode: Mode | None = None, namespace: str = "org-myteam", fresh: bool = False
) -> st.SearchStrategy[ApplicationInstance]:
    """Valid instances in `namespace`; `fresh` ones were just created: no status, no finalizer, not deleted."""
    metas = object_metas(namespace=namespace)
    if fresh:
        metas = metas.map(lambda meta: attrs.evolve(meta, finalizers=(), deletion_timestamp=None, generation=1))
    return st.builds(
        ApplicationInstance,
        metadata=metas,
        spec=specs(mode=mode, namespace=namespace),
        status=st.just(ApplicationInstanceStatus()) if fresh else instance_statuses(),
    )


@cache
def operation_specs() -> st.SearchStrategy[OperationSpec]:
    approvals = st.builds(
        Approvals,
        required=st.booleans(),
        claim=st.none() | st.just("vws1.eyJ2IjoxfQ.00ff"),
        approved_by=st.none() | st.just("ada@example.test"),
        approved_at=st.none() | times(),
    )
    return st.builds(
        OperationSpec,
        target_ref=dns_labels().map(lambda name: TargetRef(name=name)),
        type=st.sampled_from(OperationType),
        engine=st.sampled_from(EngineName),
        parameters=st.none() | inline_values(),
        approvals=st.none() | approvals,
        timeout_seconds=st.none() | st.integers(1, 86_400),
    )


@cache
def operation_statuses() -> st.SearchStrategy[OperationStatus]:
    return st.builds(
        OperationStatus,
        observed_generation=st.none() | st.integers(0, 50),
        phase=st.none() | st.sampled_from(Phase),
        started_at=st.none() | times(),
        finished_at=st.none() | times(),
        conditions=conditions("Operation"),
        outputs=st.none()
        | st.dictionaries(st.sampled_from(["backupName", "jobName", "items"]), st.integers() | dns_labels()),
        logs_ref=st.none() | st.builds(LogsRef, st.just("Job"), dns_labels(), dns_labels()),
        engine_ref=st.none()
        | st.builds(EngineRef, st.just("batch/v1"), st.just("Job"), dns_labels(), dns_labels(), st.just("") | uids()),
    )


@cache
def operations(*, namespace: str = "org-myteam", fresh: bool = False) -> st.SearchStrategy[Operation]:
    """Valid Operations in `namespace`; `fresh` ones have no status."""
    return st.builds(
        Operation,
        metadata=object_metas(namespace=namespace),
        spec=operation_specs(),
        status=st.just(OperationStatus()) if fresh else operation_statuses(),
    )


@cache
def clusters() -> st.SearchStrategy[Cluster]:
    """Valid Cluster objects."""
    names = st.lists(dns_labels(20), max_size=3, unique=True).map(tuple)
    spec = st.builds(
        ClusterSpec,
        cluster_id=dns_labels(),
        control_plane_endpoint=dns_subdomains().map("https://{}".format),
        registration_token_secret_ref=st.none() | st.builds(KeyRef, dns_labels(), st.just("token")),
        rotate_credentials=st.booleans(),
        security=st.none() | st.builds(SecuritySpec, st.booleans(), st.booleans()),
        policy=st.none() | st.builds(PolicySpec, names, names),
    )
    status = st.builds(
        ClusterStatus,
        observed_generation=st.none() | st.integers(0, 50),
        conditions=conditions("Cluster"),
        last_heartbeat=st.none() | times(),
        credentials_secret_ref=st.none() | st.builds(NameRef, dns_labels()),
        managed_namespaces=names,
        operator_version=st.none() | versions(),
        installed_engines=st.lists(
            st.sampled_from([str(engine) for engine in EngineName]), max_size=3, unique=True
        ).map(tuple),
    )
    return st.builds(Cluster, metadata=object_metas(namespace=""), spec=spec, status=status)


def gated_namespace(name: str = "org-myteam", **annotations: str) -> Mapping[str, Any]:
    """A Namespace manifest behind the gate (RES-5)."""
    meta = {"name": name, "labels": {labels.NAMESPACE_GATE: labels.NAMESPACE_GATE_VALUE}, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
