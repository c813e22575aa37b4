"""The templates of the chart: the manifests of `manifests`, with the parts that depend on values.

The manifests come from the same functions; this module only decides which value determines which part. A test compares
what Helm renders from the templates with what `manifests --values` prints.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from purekube.apimachinery.fields import camel
from purekube.controller.shard import Shard
from tools.chart.template import Each, Guard, Number, Rest, Spread, When, Yaml, either, template, with_texts
from vworkspace_app.install.chart_values import (
    NAMED_TWICE,
    NO_AUTHORITY,
    NO_CLUSTER_ID,
    NO_TAG,
    OperatorChartValues,
    default_values,
)
from vworkspace_app.install.deployment import BOXES, RELEASE_SECONDS, SHORTEST_GRACE, flags, workload
from vworkspace_app.install.everything import accounts, tenant
from vworkspace_app.install.extension_manifests import applied_rbac
from vworkspace_app.install.names import NAME
from vworkspace_app.install.network_objects import network, prometheus_rule
from vworkspace_app.install.options import (
    EXAMPLE_REGISTRY,
    NO_REGISTRY,
    NO_SUCH_REGISTRY,
    NOT_THE_RUNNER,
    PRIVATE_KEY,
    SHARD_LABEL,
    WITH_A_KEY,
    WITH_REGISTRY,
    InstallOptions,
    Profile,
    profile_settings,
)
from vworkspace_app.install.rbac import cluster_rbac, operator_role, page_rbac, tenant_roles
from vworkspace_app.install.webhook_manifests import applied_configuration, certificate, configurations
from vworkspace_app.settings.table import PageAccess
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.install import access
from vworkspace_core.operations.settings import RUNNER

KEEP: Final = {"helm.sh/resource-policy": "keep"}
"""The annotation that makes Helm keep an object.

It is on the CRDs, since deleting a CRD deletes every object of its kind, and on the accounts that Flux installs
releases as, so that applications continue to run.
"""

DEFAULTS: Final = f'include "{NAME}.defaults" $'
"""The expression that gives each value that was left empty its default.

A value whose name has nothing after the colon is null, and Helm removes the default of a null.
"""

_V: Final = "$.Values."
_NAMESPACE: Final = "⟦$.Release.Namespace⟧"
_AGENT: Final = f"{_V}controlPlane.enabled"
_HOOKS: Final = f"{_V}webhooks.enabled"
_MANAGED: Final = f"{_V}webhooks.certManager"
_PLAIN: Final = InstallOptions(namespace=_NAMESPACE)
_WITH_HOOKS: Final = attrs.evolve(_PLAIN, cert_manager=True)


def templates() -> Mapping[str, str]:
    """Return the text of each template by its path below `templates/`."""
    return {
        "_helpers.tpl": _HELPERS,
        "crds.yaml": template([Guard(f"{_V}crds.install", list(_crds()))], [DEFAULTS]),
        "network.yaml": template(_network(), [DEFAULTS]),
        "rbac.yaml": template(_rbac(), [DEFAULTS]),
        "tenants.yaml": template(_tenants(), [DEFAULTS]),
        "webhooks.yaml": template(_webhooks(), [DEFAULTS]),
        "workload.yaml": template(_workload(), [DEFAULTS, f'include "{NAME}.check" $']),
    }


def _crds() -> Iterator[Any]:
    return map(_kept, crd_manifests())


def _kept(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest with the annotation that makes Helm keep it when it is no longer rendered."""
    metadata = manifest["metadata"]
    return {**manifest, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **KEEP}}}


# --- rights ----------------------------------------------------------------------------------------------------------


def _rbac() -> Iterator[Any]:
    plain = list(cluster_rbac(_PLAIN))
    protected = list(cluster_rbac(attrs.evolve(_PLAIN, owner_reference_protection=True)))
    yield from plain
    yield Guard(f"{_V}ownerReferenceProtection", protected[len(plain) :])
    yield Guard(f'eq (lower (toString $.Values.settings.page)) "{PageAccess.TOKEN_REVIEW}"', [page_rbac(_PLAIN)])
    yield Guard(f"{_V}tenantRoles", list(tenant_roles()))
    own, local = (
        list(operator_role(f"{NAME}-system", accesses, _PLAIN, _NAMESPACE))
        for accesses in (access.OWN, access.LOCAL_OWN)
    )
    yield from _each_either(_AGENT, own, local)
    elsewhere = f"{_V}settings.leaderElectResourceNamespace"
    yield Guard(elsewhere, list(operator_role(f"{NAME}-election", (access.LEASES,), _PLAIN, f"⟦{elsewhere}⟧")))
    velero = operator_role(f"{NAME}-velero", access.VELERO, _PLAIN, f"⟦{_V}veleroNamespace⟧")
    yield Guard(f"{_V}veleroNamespace", list(velero))
    yield Guard(f"{_V}appliedBoxes", list(applied_rbac(_PLAIN)))


def _each_either(condition: str, positive: Iterable[Any], negative: Iterable[Any]) -> Iterator[Any]:
    """Return the documents with both variants of the parts that differ."""
    return (either(condition, one, other) for one, other in zip(positive, negative, strict=True))


def _tenants() -> Iterator[Any]:
    options = attrs.evolve(_PLAIN, release_account=f"⟦{_V}releaseAccount⟧")
    role = attrs.evolve(options, release_role="⟦$tenant.releaseRole⟧")
    name = "⟦$tenant.namespace⟧"
    count = len(list(accounts(name, options)))
    own, local = (list(tenant(name, attrs.evolve(options, agent=agent)))[:-count] for agent in (True, False))
    documents = [*_each_either(_AGENT, own, local)]
    # The account, its Role and its binding, then the account that Operations run as.
    account, of_role, binding, runner = accounts(name, options)
    _, other_binding, _ = accounts(name, role)
    *_, working, role_of_workflows, binding_of_workflows = accounts(name, attrs.evolve(options, workflows=True))
    documents += [
        _kept(account),
        Guard("not $tenant.releaseRole", [_kept(of_role), _kept(binding)]),
        Guard("$tenant.releaseRole", [_kept(other_binding)]),
        either("$tenant.workflows", working, runner),
        Guard("$tenant.workflows", [role_of_workflows, binding_of_workflows]),
    ]
    yield Each(f"$tenant := {_V}tenants", documents)


# --- network and webhooks --------------------------------------------------------------------------------------------


def _network() -> Iterator[Any]:
    without, hooked = (list(network(options)) for options in (_PLAIN, _WITH_HOOKS))
    (metrics, _), (_, hook_service, policy) = without, hooked
    yield metrics
    _, monitor, _ = network(attrs.evolve(_PLAIN, service_monitor=True))
    page = f"{_V}settings.pageUrl"
    rule = prometheus_rule(attrs.evolve(_PLAIN, prometheus_rule=True), {When(page, "link"): f"⟦{page}⟧"})
    for value, document in (("serviceMonitor", monitor), ("prometheusRule", rule)):
        document["metadata"]["labels"][Spread(f"{_V}{value}.labels")] = None
        yield Guard(f"{_V}{value}.enabled", [document])
    yield Guard(_HOOKS, [hook_service])
    yield Guard(f"{_V}networkPolicy.enabled", [either(_HOOKS, policy, without[-1])])


def _webhooks() -> Iterator[Any]:
    yield Guard(f"and {_HOOKS} {_MANAGED}", list(certificate(_WITH_HOOKS)))
    authority = b"given"
    with_authority = attrs.evolve(_PLAIN, webhook_ca=authority)
    texts = {b64encode(authority).decode(): f"⟦b64enc {_V}webhooks.caBundle⟧"}
    given = with_texts([*configurations(with_authority), applied_configuration(with_authority)], texts)
    *own, of_boxes = _each_either(_MANAGED, [*configurations(_WITH_HOOKS), applied_configuration(_WITH_HOOKS)], given)
    yield Guard(_HOOKS, own)
    yield Guard(f"and {_HOOKS} {_V}appliedBoxes", [of_boxes])


# --- what runs -------------------------------------------------------------------------------------------------------

_SHARDED: Final = "$sharded"
_OF_EACH_SHARD: Final = (
    f"$sharded := gt (int {_V}shards) 1",
    f'$name := ternary (printf "{NAME}-shard-%d" $shard) "{NAME}" $sharded',
)


def _workload() -> Iterator[Any]:
    # Rendered with several shards, so that their names and labels are present; these become the names and labels of any
    # shard.
    options = attrs.evolve(_WITH_HOOKS, image=f'⟦include "{NAME}.image" $⟧', shards=2)
    account, *of_shard = list(workload(options))[:3]
    annotations = f"{_V}serviceAccount.annotations"
    account["metadata"][When(annotations, "annotations")] = Yaml(annotations)
    yield account
    deployment, budget = with_texts(_labelled(of_shard), {f"{NAME}-shard-0": "⟦$name⟧"})
    yield Each(f"$shard := until (int {_V}shards)", [_deployment(deployment), budget], _OF_EACH_SHARD)


def _labelled(document: Any) -> Any:
    """Return the document with a shard's label only if there are several shards."""
    match document:
        case Mapping():
            plain = {key: _labelled(value) for key, value in document.items() if key != SHARD_LABEL}
            return {**plain, When(_SHARDED, SHARD_LABEL): "⟦$shard⟧"} if SHARD_LABEL in document else plain
        case list():
            return [_labelled(item) for item in document]
        case _:
            return document


def _deployment(deployment: Mapping[str, Any]) -> dict[str, Any]:
    spec, pods = deployment["spec"], deployment["spec"]["template"]
    metadata = {
        "labels": {**pods["metadata"]["labels"], Spread(f"{_V}podLabels"): None},
        When(f"{_V}podAnnotations", "annotations"): Yaml(f"{_V}podAnnotations"),
    }
    template = {"metadata": metadata, "spec": _pod(pods["spec"])}
    return {**deployment, "spec": {**spec, "replicas": Number(f"int {_V}replicas"), "template": template}}


def _pod(spec: Mapping[str, Any]) -> dict[Any, Any]:
    (container,) = spec["containers"]
    parts: dict[Any, Any] = {}
    for key, value in spec.items():
        match key:
            case "affinity":
                parts[When(f"{_V}affinity", key)] = Yaml(f"{_V}affinity")
                parts[When(f"not {_V}affinity", key)] = value
            case "containers":
                parts[key] = [_container(container)]
            case "terminationGracePeriodSeconds":
                parts[key] = Number(f'include "{NAME}.grace" $')
            case "volumes":
                source = {"name": "⟦$box.configMap⟧"}
                volume = {"name": '⟦printf "box-%d" $index⟧', "configMap": source}
                parts[key] = [*_of_hooks(value, volume), Rest(f"{_V}extraVolumes")]
            case _:
                parts[key] = value
    for key in ("nodeSelector", "tolerations", "topologySpreadConstraints"):
        parts[When(_V + key, key)] = Yaml(_V + key)
    parts[When(f"{_V}image.pullSecrets", "imagePullSecrets")] = [
        Each(f"$secret := {_V}image.pullSecrets", [{"name": "⟦$secret⟧"}])
    ]
    parts[When(f"{_V}priorityClassName", "priorityClassName")] = f"⟦{_V}priorityClassName⟧"
    return parts


def _container(container: Mapping[str, Any]) -> dict[Any, Any]:
    *ports, webhook = container["ports"]
    mount = {"name": '⟦printf "box-%d" $index⟧', "mountPath": f'⟦printf "{BOXES}/%d" $index⟧', "readOnly": True}
    return {
        **container,
        "args": list(_arguments()),
        "ports": [*ports, Guard(_HOOKS, [webhook])],
        "resources": Yaml(f"{_V}resources"),
        "volumeMounts": [*_of_hooks(container["volumeMounts"], mount), Rest(f"{_V}extraVolumeMounts")],
        When(f"{_V}image.pullPolicy", "imagePullPolicy"): f"⟦{_V}image.pullPolicy⟧",
        When(f'include "{NAME}.env" $ | fromYaml', "env"): [
            Each(
                f'$variable, $text := include "{NAME}.env" $ | fromYaml', [{"name": "⟦$variable⟧", "value": "⟦$text⟧"}]
            )
        ],
    }


def _of_hooks(items: Iterable[Any], of_a_box: Any) -> list[Any]:
    """Return the items, with the webhooks' one only if they are enabled, and one for each box."""
    *others, last = items
    return [*others, Guard(_HOOKS, [last]), Each(f"$index, $box := {_V}boxes", [of_a_box])]


def _arguments() -> Iterator[Any]:
    always, hooked = (flags(options, Shard(0, 1)) for options in (_PLAIN, _WITH_HOOKS))
    of_profile = set(always) - set(flags(attrs.evolve(_PLAIN, profile=Profile.SINGLE_TENANT), Shard(0, 1)))
    yield from (argument for argument in always if argument not in of_profile)
    yield Guard(_SHARDED, [f"--shard=⟦$shard⟧/⟦{_V}shards⟧"])
    yield Guard(f"not {_AGENT}", ["--no-agent"])
    yield Guard(f"{_V}controlPlane.clusterId", [f"--cluster-id=⟦{_V}controlPlane.clusterId⟧"])
    yield Guard(f"and {_AGENT} {_V}controlPlane.url", [f"--control-plane-url=⟦{_V}controlPlane.url⟧"])
    yield Guard(f"{_V}veleroNamespace", [f"--velero-namespace=⟦{_V}veleroNamespace⟧"])
    yield Guard(f"{_V}appliedBoxes", ["--applied-boxes"])
    yield Guard(_HOOKS, [argument for argument in hooked if argument not in always])
    named = f"--service-account=⟦{_V}releaseAccount⟧"
    yield Guard(f'ne {_V}releaseAccount "{_PLAIN.release_account}"', [named])
    yield Guard(f"{_V}boxes", [f'--box=⟦include "{NAME}.boxes" $⟧'])
    setting = f'⟦include "{NAME}.setting" (dict "name" $setting "value" $value)⟧'
    yield Each(f'$setting, $value := include "{NAME}.settings" $ | fromYaml', [setting])
    yield Each(f"$argument := {_V}extraArgs", ["⟦$argument⟧"])


def _profile(profile: Profile, *, agent: bool) -> str:
    """Return the settings of a profile in the form of the chart's values."""
    values = {camel(name): value for name, value in profile_settings(profile, agent=agent).items()}
    return "\n".join(
        f"{name}: {value if value in ('true', 'false') else _quoted(value)}" for name, value in values.items()
    )


def _quoted(text: str) -> str:
    return f'"{text}"'


_SECTIONS: Final = " ".join(
    _quoted(camel(field.name))
    for field in attrs.fields(OperatorChartValues)
    if isinstance(field.type, type) and attrs.has(field.type)
)
"""The names of the values that are objects with named fields."""

_HELPERS: Final = f"""\
{{{{- /* The defaults of values that are left empty, which Helm takes away. */}}}}
{{{{- define "{NAME}.defaults" -}}}}
{{{{- $defaults := fromJson `{json.dumps(default_values())}` }}}}
{{{{- range $name, $default := $defaults }}}}
{{{{- if not (hasKey $.Values $name) }}}}{{{{ $_ := set $.Values $name $default }}}}{{{{ end }}}}
{{{{- end }}}}
{{{{- range $section := list {_SECTIONS} }}}}
{{{{- $values := get $.Values $section }}}}
{{{{- range $name, $default := get $defaults $section }}}}
{{{{- if not (hasKey $values $name) }}}}{{{{ $_ := set $values $name $default }}}}{{{{ end }}}}
{{{{- end }}}}
{{{{- end }}}}
{{{{- end }}}}

{{{{- define "{NAME}.image" -}}}}
{{{{- if $.Values.image.digest -}}}}
{{{{ $.Values.image.repository }}}}@{{{{ $.Values.image.digest }}}}
{{{{- else -}}}}
{{{{ $.Values.image.repository }}}}:{{{{ $.Values.image.tag }}}}
{{{{- end -}}}}
{{{{- end }}}}

{{{{- define "{NAME}.boxes" -}}}}
{{{{- range $index, $box := $.Values.boxes -}}}}
{{{{- if $index }}}},{{{{ end }}}}{BOXES}/{{{{ $index }}}}/{{{{ $box.file }}}}
{{{{- end -}}}}
{{{{- end }}}}

{{{{- /* The seconds that a pod has to end: longer than the grace period of what runs in it. */}}}}
{{{{- define "{NAME}.grace" -}}}}
{{{{- $seconds := 0 }}}}
{{{{- range regexFindAll "[0-9.]+(ms|s|m|h)" (toString $.Values.settings.gracePeriod) -1 }}}}
{{{{- $unit := regexFind "[a-z]+" . }}}}
{{{{- $seconds = addf $seconds (mulf (trimSuffix $unit .) (get (dict "ms" 0.001 "s" 1 "m" 60 "h" 3600) $unit)) }}}}
{{{{- end }}}}
{{{{- max {SHORTEST_GRACE} (add {RELEASE_SECONDS} (int (ceil $seconds))) }}}}
{{{{- end }}}}

{{{{- /* The environment: proxies, and over them what is said by name. */}}}}
{{{{- define "{NAME}.env" -}}}}
{{{{- $env := dict }}}}
{{{{- with $.Values.proxy.https }}}}{{{{ $_ := set $env "HTTPS_PROXY" . }}}}{{{{ end }}}}
{{{{- with $.Values.proxy.http }}}}{{{{ $_ := set $env "HTTP_PROXY" . }}}}{{{{ end }}}}
{{{{- with $.Values.proxy.none }}}}{{{{ $_ := set $env "NO_PROXY" . }}}}{{{{ end }}}}
{{{{- mergeOverwrite $env $.Values.env | toYaml }}}}
{{{{- end }}}}

{{{{- /* The settings of the profile, and over them what is said by name. */}}}}
{{{{- define "{NAME}.settings" -}}}}
{{{{- $profile := include "{NAME}.profile" $ | fromYaml }}}}
{{{{- if ne $.Values.releaseAccount "{_PLAIN.release_account}" }}}}
{{{{- $profile = omit $profile "serviceAccount" }}}}
{{{{- end }}}}
{{{{- mergeOverwrite $profile $.Values.settings | toYaml }}}}
{{{{- end }}}}

{{{{- define "{NAME}.profile" -}}}}
{{{{- if eq $.Values.profile "{Profile.SINGLE_TENANT}" }}}}
{_profile(Profile.SINGLE_TENANT, agent=True)}
{{{{- else if $.Values.controlPlane.enabled }}}}
{_profile(Profile.MULTI_TENANT, agent=True)}
{{{{- else }}}}
{_profile(Profile.MULTI_TENANT, agent=False)}
{{{{- end }}}}
{{{{- end }}}}

{{{{- /* A setting as an argument. */}}}}
{{{{- define "{NAME}.setting" -}}}}
{{{{- $flag := kebabcase .name }}}}
{{{{- if kindIs "bool" .value -}}}}
--{{{{ ternary "" "no-" .value }}}}{{{{ $flag }}}}
{{{{- else if kindIs "slice" .value -}}}}
--{{{{ $flag }}}}={{{{ join "," .value }}}}
{{{{- else -}}}}
--{{{{ $flag }}}}={{{{ .value }}}}
{{{{- end -}}}}
{{{{- end }}}}

{{{{- /* What no schema can express. */}}}}
{{{{- define "{NAME}.check" -}}}}
{{{{- if not (regexMatch "{WITH_REGISTRY}" $.Values.image.repository) }}}}
{{{{- fail "image.repository: {NO_REGISTRY}" }}}}
{{{{- end }}}}
{{{{- if regexMatch "{EXAMPLE_REGISTRY}" $.Values.image.repository }}}}
{{{{- fail "image.repository: {NO_SUCH_REGISTRY}" }}}}
{{{{- end }}}}
{{{{- if not (or $.Values.image.tag $.Values.image.digest) }}}}
{{{{- fail "image.tag: {NO_TAG}" }}}}
{{{{- end }}}}
{{{{- if and (not $.Values.controlPlane.enabled) (not $.Values.controlPlane.clusterId) }}}}
{{{{- fail "controlPlane.clusterId: {NO_CLUSTER_ID}" }}}}
{{{{- end }}}}
{{{{- if eq $.Values.releaseAccount "{RUNNER}" }}}}
{{{{- fail "releaseAccount: {NOT_THE_RUNNER}" }}}}
{{{{- end }}}}
{{{{- $named := dict }}}}
{{{{- range $.Values.tenants }}}}
{{{{- if hasKey $named .namespace }}}}
{{{{- fail (printf "tenants: {NAMED_TWICE.format("%s")}" .namespace) }}}}
{{{{- end }}}}
{{{{- $_ := set $named .namespace true }}}}
{{{{- end }}}}
{{{{- if and $.Values.webhooks.enabled (semverCompare "<1.28.0-0" $.Capabilities.KubeVersion.Version) }}}}
{{{{- fail "webhooks.enabled: needs Kubernetes 1.28 or newer" }}}}
{{{{- end }}}}
{{{{- if and $.Values.webhooks.enabled (not $.Values.webhooks.certManager) (not $.Values.webhooks.caBundle) }}}}
{{{{- fail "webhooks.caBundle: {NO_AUTHORITY}" }}}}
{{{{- end }}}}
{{{{- if contains "{PRIVATE_KEY}" $.Values.webhooks.caBundle }}}}
{{{{- fail "webhooks.caBundle: {WITH_A_KEY}" }}}}
{{{{- end }}}}
{{{{- end }}}}
"""
