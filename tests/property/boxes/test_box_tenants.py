"""RUN-12: a box is no tenant's deputy. What `box check` lets decide a place of power is the same for all parents."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from purekube.apimachinery.manifest import Kind, get_path
from purekube.boxes.compiler.compile import BoxExamination, examine
from purekube.boxes.compiler.impersonation import power_at
from purekube.boxes.expressions import ExpressionFailure
from purekube.boxes.model import Power
from purekube.boxes.read import read_box
from purekube.boxes.schemas import CrdVersions, Schemas
from tests.support.boxes import box_of, config, crd, deployment, document, secret, told
from tests.support.effort import effort

KIND = crd()
POD = ("spec", "template", "spec")
RBAC = "rbac.authorization.k8s.io/v1"
LABEL = {"owner": "Label"}


def account(name: str = "runner") -> dict[str, Any]:
    return {"id": "sa", "template": {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}}


def pod(**spec: Any) -> dict[str, Any]:
    """Return a Deployment whose pods say this too."""
    made = deployment("web")
    made["template"]["spec"]["template"]["spec"] |= {"containers": [{"name": "main", "image": "i"}], **spec}
    return made


def container(**fields: Any) -> dict[str, Any]:
    return pod(containers=[{"name": "main", "image": "i", **fields}])


def role_binding(subject: Mapping[str, Any], role: str = "author") -> dict[str, Any]:
    reference = {"apiGroup": RBAC.partition("/")[0], "kind": "Role", "name": role}
    meta = {"name": "b"}
    template = {
        "apiVersion": RBAC,
        "kind": "RoleBinding",
        "metadata": meta,
        "subjects": [subject],
        "roleRef": reference,
    }
    return {"id": "binding", "template": template}


def cluster_role(name: str) -> dict[str, Any]:
    template = {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": []}
    return {"id": "role", "template": template, **LABEL}


def elsewhere(namespace: str, name: str = "a") -> dict[str, Any]:
    made = config("a", name, owner="Label")
    made["template"]["metadata"]["namespace"] = namespace
    return made


THING = Kind("x.example.com", "v1", "Thing", "things")
REFUSED = {
    "a namespace of the spec": (Power.NAMESPACES, elsewhere("${self.spec.image}")),
    "a namespace of a label": (Power.NAMESPACES, elsewhere("${self.metadata.?labels.?ns.orValue('x')}")),
    "a namespace of an annotation": (Power.NAMESPACES, elsewhere("${self.metadata.?annotations.?ns.orValue('x')}")),
    "a namespace that is the parent's name": (Power.NAMESPACES, elsewhere("${self.metadata.name}")),
    "a namespace in a text": (Power.NAMESPACES, elsewhere("org-${self.spec.image}")),
    "a namespace by a condition": (Power.NAMESPACES, elsewhere("${self.spec.image == 'a' ? 'x' : 'y'}")),
    "a name in another namespace": (Power.NAMES, elsewhere("monitoring", "${self.spec.image}")),
    "a name of the whole cluster": (Power.NAMES, cluster_role("x-${self.spec.image}")),
    "an account": (Power.ACCOUNTS, pod(serviceAccountName="${self.spec.image}")),
    "an account that is the parent's name": (Power.ACCOUNTS, pod(serviceAccountName="${self.metadata.name}")),
    "an account of old": (Power.ACCOUNTS, pod(serviceAccount="${self.spec.?host.orValue('x')}")),
    "a subject": (Power.ROLES, role_binding({"kind": "User", "name": "${self.spec.image}"})),
    "a role": (Power.ROLES, role_binding({"kind": "User", "name": "x"}, "${self.spec.image}")),
    "a path of the host": (Power.HOSTS, pod(volumes=[{"name": "v", "hostPath": {"path": "${self.spec.image}"}}])),
    "the host's network": (Power.HOSTS, pod(hostNetwork="${self.spec.image == 'debug'}")),
    "the host's processes": (Power.HOSTS, pod(hostPID="${has(self.spec.host)}")),
    "privilege": (Power.HOSTS, container(securityContext={"privileged": "${self.spec.image == 'debug'}"})),
    "capabilities": (
        Power.HOSTS,
        container(securityContext={"capabilities": {"add": "${self.spec.parts.map(p, p.name)}"}}),
    ),
    "a whole security context": (Power.HOSTS, container(securityContext="${self.spec.?free}")),
    "a whole pod": (Power.HOSTS, pod(volumes="${[{'name': 'v', 'hostPath': {'path': self.spec.image}}]}")),
    "a node": (Power.HOSTS, pod(nodeName="${self.spec.image}")),
    "a Secret of a volume": (
        Power.SECRETS,
        pod(volumes=[{"name": "v", "secret": {"secretName": "${self.spec.image}"}}]),
    ),
    "a Secret of the environment": (Power.SECRETS, container(envFrom=[{"secretRef": {"name": "${self.spec.image}"}}])),
    "a Secret of a variable": (
        Power.SECRETS,
        container(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "${self.spec.image}", "key": "k"}}}]),
    ),
    "a Secret to pull by": (Power.SECRETS, pod(imagePullSecrets="${self.spec.parts.map(p, {'name': p.name})}")),
}


def found_in(*resources: Mapping[str, Any], **spec: Any) -> BoxExamination:
    versions = CrdVersions.of(KIND)
    return examine(read_box(document(*resources, **spec)), versions, Schemas([versions], [THING]))


@pytest.mark.parametrize("what", REFUSED)
def test_a_tenant_who_writes_parents_does_not_decide(what: str) -> None:
    power, resource = REFUSED[what]
    lines = told(found_in(resource))
    assert len(lines) == 1
    assert lines[0].startswith("spec.resources[0].template.")
    assert f"trustParents: [{power}]" in lines[0]
    assert told(found_in(resource, trustParents=[power])) == []
    others = [str(one) for one in Power if one is not power]
    assert told(found_in(resource, trustParents=others)) == lines


def thing(spec: Any) -> dict[str, Any]:
    template = {"apiVersion": "x.example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec}
    return {"id": "thing", "template": template}


UNTYPED = [
    {"${self.spec.image}": "x"},
    {"${'service' + 'AccountName' + self.spec.image}": "x"},
    {"${self.spec[\"image\"] + 'x'}": "x"},
    {"targetNamespace": "${self.spec.image}"},
    {"a": {"serviceAccountRef": {"name": "${self.spec.image}"}}},
    {"auth": {"secretRef": "${{'name': self.spec.image}}"}},
    {"auth": "${{'secretRef': {'name': self.spec.image}}}"},
    {"auth": "${self.spec.?host.optMap(h, {'secretRef': {'name': h}})}"},
    {"auth": "${cel.bind(x, self.spec.image, [{'secretRef': {'name': x}}])}"},
]


@pytest.mark.parametrize("spec", UNTYPED, ids=str)
def test_a_tenant_decides_nothing_of_power_where_no_schema_says_what_it_is(spec: Any) -> None:
    assert any("would decide" in line for line in told(found_in(thing(spec))))


OPEN = [{"podTemplate": {"spec": "${self.spec.?free}"}}, "${self.spec.?free}", {"x": ["${self.spec.?free}"]}]
PODS = st.recursive(
    st.sampled_from(("a", 1, True, None)),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(("name", "key", "labels", "fsGroup", "secretRef", "serviceAccountName", "hostPath", "x")),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


def powers_in(value: Any, steps: tuple[str, ...] = ()) -> set[Power]:
    """Return the powers of all fields of a Thing."""
    if isinstance(value, list):
        return {power for item in value for power in powers_in(item, steps)}
    if not isinstance(value, dict):
        return set()
    here = {power for key in value if (power := power_at(THING, (*steps, key))) is not None}
    return here | {power for key, item in value.items() for power in powers_in(item, (*steps, key))}


@given(st.sampled_from(OPEN), PODS, st.frozensets(st.sampled_from(sorted(Power))))
@example("${self.spec.?free}", {"x": [{"serviceAccountName": "a"}]}, frozenset())
@example("${self.spec.?free}", {"secretRef": {"key": "k"}}, frozenset([Power.HOSTS]))
def test_a_value_that_no_schema_limits_is_written_unless_it_gives_a_power_that_nobody_granted(
    spec: Any, free: Any, trusted: frozenset[Power]
) -> None:
    examination = found_in(thing(spec), trustParents=[str(power) for power in sorted(trusted)])
    assert examination.box is not None
    (node,) = examination.box.nodes
    scope = {"self": {**parent("a"), "spec": {"image": "i", "free": free}}}
    given_powers = powers_in({"spec": _filled(spec, free)}) - trusted
    if given_powers:
        with pytest.raises(ExpressionFailure, match="would decide"):
            node.template.render(scope)
    else:
        assert node.template.render(scope)["spec"] == _filled(spec, free)


def _filled(spec: Any, free: Any) -> Any:
    match spec:
        case str():
            return free
        case list():
            return [_filled(item, free) for item in spec]
        case _:
            return {key: _filled(item, free) for key, item in spec.items()}


ACCEPTED = {
    "the parent's namespace": elsewhere("${self.metadata.namespace}"),
    "a namespace made of the parent's": elsewhere("${self.metadata.namespace + '-jobs'}"),
    "a literal namespace": elsewhere("monitoring"),
    "a name made of the parent's": cluster_role("${self.metadata.namespace + '-' + self.metadata.name}"),
    "a literal account": pod(serviceAccountName="runner"),
    "a Secret named after the parent": pod(
        volumes=[{"name": "v", "secret": {"secretName": "${self.metadata.name}-tls"}}]
    ),
    "images, numbers and labels": config(
        "c", data={"a": "${self.spec.image}", "serviceAccountName": "${self.spec.image}"}
    ),
    "a label of any name": thing({"selector": {"matchLabels": {"namespace": "${self.spec.image}"}}}),
    "a group of volumes": pod(securityContext={"fsGroup": "${self.spec.replicas}"}),
    "a part of a text, whatever its type": thing({"policy": "arn:${self.spec.?free.a.value()}/*"}),
    "a value without power": thing({"size": "${self.spec.replicas}", "host": "${self.spec.?host}"}),
}


@pytest.mark.parametrize("what", ACCEPTED)
def test_a_tenant_may_decide_what_gives_no_power(what: str) -> None:
    assert told(found_in(ACCEPTED[what])) == []


def test_names_of_the_boxs_own_objects_are_no_choice_of_a_tenant() -> None:
    assert told(found_in(account("${self.spec.image}"), pod(serviceAccountName="${sa.metadata.name}"))) == []
    subject = {"kind": "ServiceAccount", "name": "${sa.metadata.name}", "namespace": "${sa.metadata.namespace}"}
    assert told(found_in(account("${self.metadata.name}"), role_binding(subject))) == []
    own = container(envFrom=[{"secretRef": {"name": "${pw.metadata.name}"}}])
    assert told(found_in(secret("pw"), own)) == []


@pytest.mark.parametrize(
    "text", ["${sa.metadata.name}-x", "${sa.metadata.labels['a']}", "${sa.metadata.name + 'x'}", "${cm.data.name}"]
)
def test_what_else_children_say_is_a_choice_of_a_tenant(text: str) -> None:
    examination = found_in(
        account("${self.spec.image}"), config("cm", data={"name": "x"}), pod(serviceAccountName=text)
    )
    assert any("would decide" in line for line in told(examination))


def test_no_child_carries_a_choice_of_a_tenant_into_a_namespace() -> None:
    laundered = elsewhere("${sa.metadata.name}")
    assert any("Namespaces" in line for line in told(found_in(account("${self.spec.image}"), laundered)))


def test_a_secret_that_a_parent_names_has_to_agree_to_a_tenant() -> None:
    reads = {"id": "tls", "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "${self.spec.image}"}}
    mounts = pod(volumes=[{"name": "v", "secret": {"secretName": "${tls.metadata.name}"}}])
    (external,) = box_of(mounts, kind=KIND, externals=[reads]).externals
    assert external.must_agree
    assert ("metadata", "annotations") in external.fields
    (trusted,) = box_of(mounts, kind=KIND, externals=[reads], trustParents=["Secrets"]).externals
    assert not trusted.must_agree
    (own,) = box_of(mounts, kind=KIND, externals=[{**reads, "metadata": {"name": "${self.metadata.name}"}}]).externals
    assert not own.must_agree


# --- the law ----------------------------------------------------------------------------------------------------------

ATOMS = [
    *("self.spec.image", "self.spec.replicas", "self.spec.?host", "self.metadata.name", "self.metadata.namespace"),
    *("self.metadata.labels['a']", "self.metadata.?labels", "self.spec.free.a", "self.metadata.uid", "self.kind"),
    *("'a'", "true", "1", "['a']", "{'a': 'b'}", "self.spec.parts", "self.metadata", "self.spec", "self"),
    *("own.metadata.name", "own.metadata.namespace", "own.data.p", "own", "own.metadata.labels", "optional.none()"),
    *("children.configmap.metadata.name", "children.configmap[*].map(c, c.metadata.name)", "self.?status.?address"),
]
FORMS = [
    *("({0} + {1})", "({0} == {1})", "({0} ? {1} : {2})", "(!{0})", "string({0})", "size({0})", "{0}.orValue({1})"),
    *("{0}.map(x, {1})", "{0}.filter(x, {1})[0]", "{0}.exists(x, x == {1})", "default({0}, {1})", "json({0})"),
    *("{0}.optMap(v, {1})", "[{0}, {1}]", "[{0}, {1}][0]", "{{'name': {0}}}", "{{'name': {0}}}.name", "name({0}, {1})"),
    *("optional.of({0})", "cel.bind(x, {0}, x.metadata.name)", "{0}.map(x, x.metadata.name)", "{0}.metadata.name"),
    *("cel.bind(x, {0}, {1})", "get({0}, 'spec', 'image')", "{0}.transformList(k, v, v)", "{0}.first()", "{0}[0]"),
]
EXPRESSIONS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.tuples(st.sampled_from(FORMS), inner, inner, inner).map(lambda drawn: drawn[0].format(*drawn[1:])),
    max_leaves=4,
)
HOLES: dict[str, Callable[[str], dict[str, Any]]] = {
    "account": lambda text: pod(serviceAccountName=text),
    "namespace": elsewhere,
    "cluster": cluster_role,
    "host": lambda text: pod(hostNetwork=text),
    "path": lambda text: pod(volumes=[{"name": "v", "hostPath": {"path": text}}]),
    "context": lambda text: container(securityContext=text),
    "things": lambda text: thing({"spec": {"serviceAccountName": text}}),
}


def parent(choice: str) -> dict[str, Any]:
    """Return what two tenants might write under one name: everything that is theirs differs."""
    meta = {"name": "shop", "namespace": "team", "uid": "0-0", "generation": 1, "resourceVersion": "7"}
    meta |= {"labels": {"a": choice}, "annotations": {"a": choice}, "creationTimestamp": "2026-01-01T00:00:00Z"}
    spec = {
        "image": choice,
        "replicas": len(choice),
        "host": choice,
        "free": {"a": choice},
        "parts": [{"name": choice}],
    }
    status = {"address": choice}
    return {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": meta, "spec": spec, "status": status}


def world(choice: str) -> dict[str, Any]:
    meta = {"name": "own", "namespace": "team", "uid": "1-1", "labels": {"a": choice}, "generation": 1}
    own = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"p": choice}}
    return {"self": parent(choice), "own": own, "children.configmap[*]": [own]}


@pytest.mark.slow
@settings(max_examples=effort(5))
@given(st.sampled_from(sorted(HOLES)), EXPRESSIONS)
@example("account", "self.spec.image == 'a' ? own.metadata.name : 'b'")
@example("namespace", "[self.metadata.namespace, self.spec.image].filter(x, x == self.spec.image)[0]")
@example("things", "self.spec.?host.optMap(h, 'a')")
@example("context", "{'privileged': self.spec.image == 'a'}")
def test_two_tenants_never_differ_in_what_a_box_does_at_a_place_of_power(hole: str, text: str) -> None:
    examination = found_in(config("own", data={"p": "x"}), HOLES[hole](f"${{{text}}}"))
    if examination.box is None:
        return
    template = next(node.template for node in examination.box.nodes if node.id != "own")
    said = [_rendered(template, world(choice)) for choice in ("a", "bb")]
    assert said[0] == said[1]


def _rendered(template: Any, scope: Mapping[str, Any]) -> Any:
    try:
        made = template.render(scope)
    except ExpressionFailure as failure:
        return failure.problem
    return made["metadata"], get_path(made, *POD, "serviceAccountName"), get_path(made, "spec")
