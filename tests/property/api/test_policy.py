"""M5, D11: what a policy or an allow-list names cannot be spelled around."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.instance_worlds import CONTEXT, NAMESPACE, decide, instance_manifest, message_of
from vworkspace_core.api.admission import admit
from vworkspace_core.api.chart import ChartSource, Policy, SourceType, is_allowed_source, is_forbidden
from vworkspace_core.instances.context import Context, InstanceObserved, Settings
from vworkspace_core.operations.settings import is_allowed_image

APPROVED = "oci://registry.example.com/approved"
WORD = st.text(alphabet="abz09", min_size=1, max_size=4)
PATH = st.lists(WORD, max_size=3).map("/".join)
VERSION = st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30)).map(lambda one: "{}.{}.{}".format(*one))
MARK = st.sampled_from(["", "v"])
BUILD = st.sampled_from(["", "+x", "+1.2", "+20130313144700"])


def chart(url: str, name: str = "nextcloud", version: str = "6.6.0") -> ChartSource:
    return ChartSource(SourceType.OCI if url.startswith("oci") else SourceType.HELM, url, name, version)


# What a registry, a repository or Flux itself may take for another place.
AROUND = [
    (f"{APPROVED}/../evil", "nextcloud"),
    (f"{APPROVED}/..", "evil/nextcloud"),
    (f"{APPROVED}/%2e%2e/evil", "nextcloud"),
    (f"{APPROVED}/%2E%2E%2Fevil", "nextcloud"),
    (f"{APPROVED}/./../evil", "nextcloud"),
    (f"{APPROVED}//../evil", "nextcloud"),
    (f"{APPROVED}/?x=/evil", "nextcloud"),
    (f"{APPROVED}/#/evil", "nextcloud"),
    (f"{APPROVED}/\\..\\evil", "nextcloud"),
    (APPROVED, "../evil/nextcloud"),
    (APPROVED, "a/../../evil/nextcloud"),
    (APPROVED, "./nextcloud/.."),
    (APPROVED, ".."),
    ("oci://registry.example.com/approved-by-nobody", "nextcloud"),
    ("oci://registry.example.com/approvedx", "nextcloud"),
    ("oci://registry.example.com.evil.io/approved", "nextcloud"),
    ("oci://registry.example.com:5000/approved", "nextcloud"),
    ("oci://registry.example.com@evil.io/approved", "nextcloud"),
    ("oci://evil.io/registry.example.com/approved", "nextcloud"),
    ("https://registry.example.com/approved", "nextcloud"),
]


@pytest.mark.parametrize(("url", "name"), AROUND)
def test_no_spelling_leads_around_the_allowed_sources(url: str, name: str) -> None:
    assert not is_allowed_source(chart(url, name), (APPROVED,))
    assert not is_allowed_source(chart(url, name), (f"{APPROVED}/",))


@pytest.mark.parametrize(("url", "name"), AROUND[:14])
def test_such_addresses_are_refused_whatever_the_policy_says(url: str, name: str) -> None:
    spec = {"sourceType": "oci", "url": url, "name": name, "version": "6.6.0"}

    told = "; ".join(map(str, admit(instance_manifest(chart=spec))))

    if name == "nextcloud" and ("approved-by" in url or "approvedx" in url):
        assert told == ""
    else:
        assert "spec.chart." in told


@given(PATH, PATH, WORD)
def test_a_source_allows_what_is_beneath_it_and_nothing_beside(folder: str, deeper: str, name: str) -> None:
    base = "/".join(part for part in ("oci://registry.example.com", folder) if part)
    url = "/".join(part for part in (base, deeper) if part)

    assert is_allowed_source(chart(url, name), (base,))
    assert is_allowed_source(chart(url + "/", name), (base + "/",))
    assert not is_allowed_source(chart(url, name), (base + "x",))
    assert is_allowed_source(chart(url, name), (f"{url}/{name}",))
    assert not is_allowed_source(chart(url, name + "x"), (f"{url}/{name}",))


@given(
    VERSION, st.sampled_from(["", "-rc.1", "-0"]), BUILD, BUILD, st.sampled_from(["", "v"]), st.sampled_from(["", "v"])
)
@example("6.6.0", "", "", "+x", "", "v")
def test_a_version_is_forbidden_however_it_is_written(
    number: str, pre: str, build: str, other: str, mark: str, other_mark: str
) -> None:
    policy = Policy(forbidden_versions=(f"{mark}{number}{pre}{build}",))

    assert is_forbidden("nextcloud", f"{other_mark}{number}{pre}{other}", policy)
    assert not is_forbidden("nextcloud", f"{number}1{pre}", policy)
    assert not is_forbidden("nextcloud", f"{number}-other{build}", policy)


@given(PATH, WORD, WORD, VERSION)
def test_a_chart_is_named_by_its_last_part(folder: str, name: str, other: str, version: str) -> None:
    policy = Policy(forbidden_versions=(f"{name}@{version}",))
    spelled = f"{folder}/{name}".strip("/")

    assert is_forbidden(spelled, version, policy)
    assert is_forbidden(f"./{name}", version, policy)
    assert is_forbidden(name, version, Policy(forbidden_versions=(f"{spelled}@v{version}",)))
    assert is_forbidden(other, version, policy) == (other == name)


def test_the_policy_names_the_value_the_rule_and_the_way_out() -> None:
    policy = Policy(allowed_chart_sources=("oci://other.example/charts",))
    context = Context(Settings(cluster_id=CONTEXT.settings.cluster_id, policy=policy), CONTEXT.now)

    message = message_of(decide(instance_manifest(), InstanceObserved(NAMESPACE), context), "Blocked")

    assert message == (
        "spec.chart.url: charts may come from oci://other.example/charts only (spec.policy of the Cluster),"
        " not from oci://registry.example/charts/nextcloud"
    )


REGISTRY = "registry.example.com"


@pytest.mark.parametrize(
    ("allowed", "image"),
    [
        (REGISTRY, f"{REGISTRY}/x"),
        (REGISTRY, f"{REGISTRY}/a/b:1.2@sha256:{'0' * 64}"),
        (f"{REGISTRY}/approved", f"{REGISTRY}/approved/x"),
        (f"{REGISTRY}/approved", f"{REGISTRY}/approved:1"),
        (f"{REGISTRY}/approved", f"{REGISTRY}/approved@sha256:{'0' * 64}"),
        (f"{REGISTRY}/approved/", f"{REGISTRY}/approved/x"),
        (f"{REGISTRY}/approved/x:1", f"{REGISTRY}/approved/x:1"),
        (f"{REGISTRY}:5000", f"{REGISTRY}:5000/x"),
        ("localhost", "localhost/x"),
        ("docker.io", "nginx"),
        ("docker.io/library/nginx", "nginx:1.2"),
        ("nginx", "nginx:1.2"),
        ("bitnami/", "bitnami/kubectl"),
        ("docker.io/bitnami", "bitnami/kubectl"),
    ],
)
def test_an_image_is_allowed_by_whole_parts(allowed: str, image: str) -> None:
    assert is_allowed_image(image, ("other.example.com", allowed))


@pytest.mark.parametrize(
    ("allowed", "image"),
    [
        (REGISTRY, f"{REGISTRY}.evil.io/x"),
        (REGISTRY, f"{REGISTRY}:5000/x"),
        (REGISTRY, f"{REGISTRY}@evil.io/x"),
        (REGISTRY, REGISTRY),
        (f"{REGISTRY}/approved", f"{REGISTRY}/approved-by-nobody"),
        (f"{REGISTRY}/approved", f"{REGISTRY}/approvedx/y"),
        (f"{REGISTRY}/approved/", f"{REGISTRY}/approved/../evil"),
        (f"{REGISTRY}/approved/", f"{REGISTRY}/approved/./x"),
        (f"{REGISTRY}/approved/", f"{REGISTRY}/approved//x"),
        (f"{REGISTRY}/approved/", f"{REGISTRY}/approved/"),
        (f"{REGISTRY}/approved/x:1", f"{REGISTRY}/approved/x:12"),
        (f"{REGISTRY}/approved/x:1", f"{REGISTRY}/approved/x"),
        ("nginx", "nginx-evil"),
        ("nginx", "evil/nginx"),
        ("nginx", "nginx/evil"),
        ("docker.io", "evil.io/docker.io/x"),
        ("", "x"),
    ],
)
def test_what_only_begins_alike_is_not(allowed: str, image: str) -> None:
    assert not is_allowed_image(image, (allowed,))


@given(st.lists(WORD, min_size=1, max_size=3), st.lists(WORD, min_size=1, max_size=3))
def test_a_folder_allows_its_images_and_no_others(folder: list[str], image: list[str]) -> None:
    base = "/".join([REGISTRY, *folder])

    assert is_allowed_image("/".join([base, *image]), (base,))
    assert is_allowed_image("/".join([base, *image]), (base + "/",))
    assert not is_allowed_image(base + image[0] + "/x", (base,))


@given(st.lists(WORD, min_size=1, max_size=3), st.lists(WORD, max_size=3), WORD, st.booleans())
def test_a_source_allows_exactly_what_lies_at_or_below_it_M5(
    source: list[str], more: list[str], name: str, slash: bool
) -> None:
    allowed = f"oci://registry.example.com/{'/'.join(source)}" + ("/" if slash else "")
    for url in ("/".join([*source, *more]), "/".join(more), "/".join(source[:-1])):
        one = chart(f"oci://registry.example.com/{url}".rstrip("/"), name)
        steps = [*filter(None, url.split("/")), name]
        assert is_allowed_source(one, (allowed,)) is (steps[: len(source)] == source)
        assert is_allowed_source(one, ("", "oci://other.example.com/x")) is False
        assert is_allowed_source(one, ()) is False


@pytest.mark.parametrize(("url", "name"), AROUND)
def test_what_can_be_read_in_two_ways_is_refused_with_a_plain_no_M5(url: str, name: str) -> None:
    assert is_allowed_source(chart(url, name), (APPROVED,)) is False
