"""SEE-5: what Helm makes of the chart is what `manifests` prints for the same values."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given

from purekube.apimachinery.problems import ValidationProblems
from tests.support.chart_values import EVERYTHING, PULLABLE, values
from tests.support.helm import UNAVAILABLE, Helm, HelmError, documents, helm_in
from tools.chart.templates import KEEP
from vworkspace_app.install.chart_values import chart_values, default_values, merged, values_documents
from vworkspace_app.install.options import CHOSEN_SETTINGS
from vworkspace_core.api.crd import crd_manifests

CHART = Path(__file__).resolve().parents[3] / "deploy" / "chart"
NS = "vw-here"
needs_helm = pytest.mark.skipif(bool(UNAVAILABLE), reason=UNAVAILABLE)


@pytest.fixture(scope="module")
def helm() -> Iterator[Helm]:
    with helm_in(CHART) as found:
        yield found


def keyed(manifests: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, str], Any]:
    return {
        (manifest["kind"], manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]): manifest
        for manifest in manifests
    }


def expected(given_values: Any, namespace: str = NS) -> dict[tuple[str, str, str], Any]:
    """What `manifests --values` prints, without the namespace of the release, which is Helm's to make."""
    return keyed(
        document
        for document in values_documents(chart_values({**PULLABLE, **given_values}), namespace)
        if document["kind"] != "Namespace"
    )


def rendered(helm: Helm, given_values: Any, namespace: str = NS) -> dict[tuple[str, str, str], Any]:
    return keyed(
        without_keep(document) for document in documents(helm.rendered({**PULLABLE, **given_values}, namespace))
    )


def without_keep(manifest: dict[str, Any]) -> dict[str, Any]:
    """What Helm leaves where it is says so by an annotation, which nobody else reads."""
    annotations = manifest["metadata"].get("annotations", {})
    if KEEP.items() <= annotations.items():
        assert manifest["metadata"]["labels"]["app.kubernetes.io/component"] == "release-account"
        assert manifest["metadata"].pop("annotations") == KEEP
    return manifest


@pytest.mark.slow
@needs_helm
@given(given_values=values)
@example(given_values=EVERYTHING)
@example(given_values={})
@example(given_values={"profile": "single-tenant", "releaseAccount": "deployer"})
@example(given_values={"resources": {"limits": None}})
def test_helm_makes_what_manifests_prints(helm: Helm, given_values: dict[str, Any]) -> None:
    assert rendered(helm, given_values) == expected(given_values)


def left_empty() -> Iterator[dict[str, Any]]:
    """Yield values files in which one value, or one section, has its name and nothing after the colon."""
    for key, default in default_values().items():
        if key != "image":
            yield {key: None}
            if key != "resources" and isinstance(default, dict):
                yield from ({key: {name: None}} for name in default)


@needs_helm
def test_a_value_that_is_left_empty_has_its_default(helm: Helm) -> None:
    # `settings:` with every line below it a comment is null, which makes Helm forget the default.
    for said in left_empty():
        assert rendered(helm, said) == expected(said), said


@pytest.mark.slow
@needs_helm
def test_every_setting_of_an_installation_becomes_its_flag(helm: Helm) -> None:
    for setting in CHOSEN_SETTINGS:
        if setting.name == "box":
            continue
        value = not setting.default if isinstance(setting.default, bool) else setting.default
        said = {"settings": {setting.key: list(value) if isinstance(value, tuple) else value}}
        if value is not None:
            assert rendered(helm, said) == expected(said), setting.name


@pytest.mark.slow
@needs_helm
def test_the_chart_is_linted_and_its_notes_say_what_comes_next(helm: Helm) -> None:
    assert helm.lint() == []

    plain = helm.rendered(PULLABLE).get("vworkspace-operator/templates/NOTES.txt", "")
    if plain:  # the command shows no notes without a cluster
        assert "create secret generic vworkspace-agent-credentials" in plain
        assert "vworkspace-operator check --system-namespace vworkspace-system\n" in plain
        all_of_it = helm.rendered(EVERYTHING)["vworkspace-operator/templates/NOTES.txt"]
        assert "kubectl label namespace org-b managed-by=vworkspace" in all_of_it
        assert "box rbac webapp.yaml --service-account vworkspace-operator" in all_of_it
        assert "--velero-namespace velero" in all_of_it
        alone = {**PULLABLE, "controlPlane": {"enabled": False, "clusterId": "c-1"}, "crds": {"install": False}}
        local = helm.rendered(alone)["vworkspace-operator/templates/NOTES.txt"]
        assert "create secret" not in local
        assert "manifests --crds-only" in local


@needs_helm
def test_crds_are_those_of_manifests_and_stay_when_the_release_goes(helm: Helm) -> None:
    found = documents(helm.rendered(PULLABLE), crds=True)

    assert all(KEEP.items() <= document["metadata"].pop("annotations").items() for document in found)
    assert keyed(found) == keyed(crd_manifests())
    assert documents(helm.rendered({**PULLABLE, "crds": {"install": False}}), crds=True) == []


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"shards": 0}, "shards", "minimum"),
    ({"replica": 3}, "", "replica"),
    ({"image": {"pullPolicy": "Sometimes"}}, "image.pullPolicy", "IfNotPresent"),
    ({"image": {"digest": "0a0a"}}, "image.digest", "sha256"),
    ({"image": {}}, "image.repository", "registry"),
    ({"image": None}, "image.repository", "registry"),
    ({"image": {"repository": None, "tag": "1"}}, "image.repository", "registry"),
    ({"image": {"repository": "vworkspace-operator", "tag": "1"}}, "image.repository", "registry"),
    ({"image": {"repository": "you/vworkspace-operator", "tag": "1"}}, "image.repository", "registry"),
    ({"image": {"repository": "registry.example.com/vw", "tag": "1"}}, "image.repository", "examples"),
    ({"image": {"repository": "none.invalid/vw", "tag": "1"}}, "image.repository", "examples"),
    ({"image": {"repository": "ghcr.io/acme/vw"}}, "image.tag", "image.digest"),
    ({"tenants": [{}]}, "tenants[0]", "namespace"),
    ({"tenants": [{"namespace": "Org"}]}, "tenants[0].namespace", "Org"),
    ({"tenants": [{"namespace": "a"}, {"namespace": "a", "releaseRole": "edit"}]}, "tenants", "names a twice"),
    ({"settings": {"allowHttp": "yes"}}, "settings.allowHttp", "boolean"),
    ({"settings": {"listen": "0.0.0.0:1"}}, "settings", "listen"),
    # Each of these was rendered, and then no pod started.
    ({"settings": {"disconnectedAfter": 5}}, "settings.disconnectedAfter", "minimum"),
    ({"settings": {"workers": 100}}, "settings.workers", "maximum"),
    ({"settings": {"gracePeriod": "30"}}, "settings.gracePeriod", "ms|s|m|h"),
    ({"settings": {"logLevel": "warn"}}, "settings.logLevel", "warning"),
    ({"settings": {"notifyUrl": "hooks.acme.io"}}, "settings.notifyUrl", "://"),
    ({"settings": {"requiredClaimBindings": ["namespace"]}}, "settings.requiredClaimBindings", "params"),
    ({"env": {"A": 1}}, "env.A", "string"),
    ({"podLabels": {"app.kubernetes.io/name": "x"}}, "podLabels", "alse schema"),
    ({"releaseAccount": "vworkspace-operation-runner"}, "releaseAccount", "no rights"),
    ({"controlPlane": {"enabled": False}}, "controlPlane.clusterId", "cluster-id"),
    ({"webhooks": {"enabled": True, "certManager": False}}, "webhooks.caBundle", "cert-manager"),
    (
        {"webhooks": {"enabled": True, "certManager": False, "caBundle": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"}},
        "webhooks.caBundle",
        "BEGIN CERTIFICATE",
    ),
    (
        {"webhooks": {"caBundle": "-----BEGIN CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----"}},
        "webhooks.caBundle",
        "private key",
    ),
]


@needs_helm
@pytest.mark.parametrize(("wrong", "path", "word"), REFUSED, ids=[str(wrong) for wrong, _, _ in REFUSED])
def test_what_the_schema_refuses_is_told_with_its_path(helm: Helm, wrong: dict[str, Any], path: str, word: str) -> None:
    with pytest.raises(HelmError) as by_helm:
        helm.rendered({**PULLABLE, **wrong})
    with pytest.raises(ValidationProblems) as by_us:
        chart_values({**PULLABLE, **wrong})

    told = str(by_helm.value).replace("/", ".").replace("[", ".").replace("]", "")
    assert path.replace("[", ".").replace("]", "") in told
    assert word in str(by_helm.value)
    assert path in str(by_us.value)
    assert word in str(by_us.value)


@needs_helm
def test_accounts_of_releases_outlive_the_release_of_the_operator(helm: Helm) -> None:
    for role in ("", "edit"):
        found = documents(helm.rendered({**PULLABLE, "tenants": [{"namespace": "a", "releaseRole": role}]}))
        kept = {document["kind"] for document in found if document["metadata"].get("annotations") == KEEP}
        assert kept == {"ServiceAccount", "RoleBinding", *([] if role else ["Role"])}


def test_values_of_the_file_are_the_defaults() -> None:
    assert yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8")) == default_values()


@pytest.mark.slow
def test_values_are_merged_as_helm_merges_them() -> None:
    assert merged({"a": {"b": 1, "c": [1]}, "d": 2}, {"a": {"c": [2]}, "d": None}) == {"a": {"b": 1, "c": [2]}}
