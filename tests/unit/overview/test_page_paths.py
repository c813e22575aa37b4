"""The URL of an object's page (SEE-3)."""

import pytest

from purekube.apimachinery.manifest import ObjectRef
from vworkspace_core.api.kinds import CLUSTER, OPERATION
from vworkspace_core.overview.page_paths import object_path, page_link

RUN = "/object/operations.ops.vworkspace.io/team/run"


@pytest.mark.parametrize(
    ("ref", "path"),
    [
        (ObjectRef(OPERATION, "team", "run"), RUN),
        (ObjectRef(CLUSTER, None, "prod-1"), f"/object/{CLUSTER.crd_name}/-/prod-1"),
        (ObjectRef(OPERATION, "a b", "x/y?é~_.-Z9"), f"/object/{OPERATION.crd_name}/a%20b/x%2Fy%3F%C3%A9~_.-Z9"),
    ],
)
def test_a_path_has_kind_namespace_and_name_percent_encoded(ref: ObjectRef, path: str) -> None:
    assert object_path(ref) == path


@pytest.mark.parametrize(
    ("base", "link"),
    [
        ("", ""),
        ("https://ops.example.com", f"https://ops.example.com{RUN}"),
        ("https://ops.example.com/", f"https://ops.example.com{RUN}"),
        ("https://ops.example.com/below//", f"https://ops.example.com/below{RUN}"),
    ],
)
def test_a_link_is_below_the_base_and_empty_without_one(base: str, link: str) -> None:
    assert page_link(base, ObjectRef(OPERATION, "team", "run")) == link
