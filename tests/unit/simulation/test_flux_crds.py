"""Our CRDs of the Flux kinds against Flux's own: the same wherever ours speak (RUN-9)."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kubelab.flux import FluxBehaviour, FluxOutcome, OutcomeKind, ReleaseRule
from kubelab.flux.crds import flux_crds
from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.resources import HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY
from tests.support.flux_world import FluxWorld, helm_release, helm_repository, oci_repository
from tests.support.projects_crds import FOLDER, projects_crds

_PROSE = ("description", "title", "example")


def real_crds() -> dict[str, Any]:
    """Flux's CRDs by name, as far as they are at hand; skips where none are."""
    return projects_crds("*.toolkit.fluxcd.io_*.yaml")


def _schema(crd: Any) -> Any:
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def _differences(ours: Any, real: Any, path: str) -> Iterator[str]:
    """Where a schema of ours says something else than Flux's; fields only Flux has are no difference."""
    for rule in (set(ours) | set(real)) - {"properties", "items", "additionalProperties", *_PROSE}:
        mine, theirs = ours.get(rule), real.get(rule)
        if rule in ("enum", "required") and mine and theirs:
            mine, theirs = sorted(mine), sorted(theirs)
        if mine != theirs:
            yield f"{path}: {rule} is {mine!r}, Flux says {theirs!r}"
    for name, schema in ours.get("properties", {}).items():
        if name not in real.get("properties", {}):
            yield f"{path}.{name}: Flux has no such field"
        else:
            yield from _differences(schema, real["properties"][name], f"{path}.{name}")
    for nested in ("items", "additionalProperties"):
        if nested in ours or nested in real:
            yield from _differences(ours.get(nested, {}), real.get(nested, {}), f"{path}[{nested}]")


def test_what_our_crds_say_flux_says_too_so_that_what_is_valid_here_is_valid_there() -> None:
    real = real_crds()
    compared = []
    for crd in flux_crds():
        theirs = real.get(crd["metadata"]["name"])
        if theirs is not None:
            assert list(_differences(_schema(crd), _schema(theirs), crd["spec"]["names"]["kind"])) == []
            compared.append(crd["spec"]["names"]["kind"])
    assert {"HelmRelease", "OCIRepository", "HelmRepository"} <= set(compared)


def test_a_difference_between_our_crds_and_flux_would_be_found() -> None:
    ours = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    real = {"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}}
    assert list(_differences(ours, real, "spec")) == [
        "spec: required is ['a'], Flux says None",
        "spec.a: pattern is None, Flux says 'x'",
        "spec.b: Flux has no such field",
    ]


def test_names_subresources_and_the_columns_of_readiness_are_flux_s() -> None:
    real = real_crds()
    for crd in flux_crds():
        theirs = real.get(crd["metadata"]["name"])
        if theirs is None:
            continue
        mine, other = crd["spec"], theirs["spec"]
        for field in ("kind", "listKind", "plural", "singular", "shortNames"):
            assert mine["names"][field] == other["names"][field]
        version, their_version = mine["versions"][0], other["versions"][0]
        assert version["name"] == their_version["name"]
        assert version["subresources"] == their_version["subresources"]
        assert _columns(version) == _columns(their_version)


def _columns(version: Any) -> set[tuple[str, str, str]]:
    return {(item["name"], item["type"], item["jsonPath"]) for item in version["additionalPrinterColumns"]}


_STORIES: dict[str, Callable[[FluxWorld], object]] = {
    "upgraded": lambda world: world.retag("6.7.0"),
    "requested": lambda world: world.annotate(requestedAt="1", resetAt="1", forceAt="1"),
    "tested": lambda world: world.apply(helm_release(test={"enable": True}, values={"a": 1}), HELM_RELEASE),
    "classic": lambda world: world.apply(helm_release(classic="6.6.0"), HELM_RELEASE),
    "deleted": lambda world: world.delete(),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [OutcomeKind.SUCCEED, OutcomeKind.FAIL, OutcomeKind.VALUES_ERROR])
@pytest.mark.parametrize("story", list(_STORIES))
def test_flux_s_own_crds_keep_every_status_that_is_written(story: str, kind: OutcomeKind) -> None:
    real = real_crds()
    world = FluxWorld(crds=[*real.values(), *(crd for crd in flux_crds() if crd["metadata"]["name"] not in real)])
    world.apply(oci_repository(), OCI_REPOSITORY)
    world.apply(helm_repository(), HELM_REPOSITORY)
    world.apply(helm_release(), HELM_RELEASE)
    world.settle()
    world.flux.behaviour = FluxBehaviour(release_rules=(ReleaseRule(FluxOutcome(kind, times=6)),))
    _STORIES[story](world)
    world.settle()
    states = [*world.states(), *world.states(OCI_REPOSITORY)]
    assert len(states) > 10


def test_a_status_that_a_crd_does_not_keep_would_be_found() -> None:
    forgetful = flux_crds()
    del _schema(forgetful[0])["properties"]["status"]["properties"]["lastAttemptedRevision"]
    world = FluxWorld(crds=forgetful)
    world.apply(oci_repository(), OCI_REPOSITORY)
    world.apply(helm_release(), HELM_RELEASE)
    with pytest.raises(AssertionError, match="lastAttemptedRevision"):
        world.settle()


_BOTH = {"chart": {"spec": {"chart": "x", "sourceRef": {"kind": "HelmRepository", "name": "x"}}}}
_OCI_IN_SOURCE_REF = {
    "chartRef": None,
    "chart": {"spec": {"chart": "x", "sourceRef": {"kind": "OCIRepository", "name": "x"}}},
}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(_BOTH, id="chart and chartRef"),
        pytest.param({"chartRef": None}, id="neither"),
        pytest.param(_OCI_IN_SOURCE_REF, id="OCIRepository in sourceRef"),
        pytest.param({"interval": "5 minutes"}, id="interval"),
        pytest.param({"interval": None}, id="no interval"),
        pytest.param({"releaseName": "x" * 54}, id="releaseName"),
        pytest.param({"driftDetection": {"mode": "maybe"}}, id="drift mode"),
        pytest.param({"upgrade": {"strategy": {"name": "RemediateOnFailure", "retryInterval": "1m"}}}, id="strategy"),
    ],
)
def test_our_crds_refuse_what_flux_s_refuse_REC_4(spec: dict[str, Any]) -> None:
    given = helm_release()["spec"] | spec
    manifest = {**helm_release(), "spec": {key: value for key, value in given.items() if value is not None}}
    crd_sets: list[Any] = [flux_crds()]
    if FOLDER.exists():
        crd_sets.append(list(real_crds().values()))
    for crds in crd_sets:
        with pytest.raises(Invalid):
            FluxWorld(crds=crds).apply(manifest, HELM_RELEASE)


def test_our_crds_refuse_a_source_without_an_oci_url() -> None:
    with pytest.raises(Invalid):
        FluxWorld().apply(oci_repository(url="https://charts.example"), OCI_REPOSITORY)
