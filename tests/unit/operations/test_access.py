"""What engines look at, the operator's roles let it read: a 403 would stop an Operation for good (OPS-3, RUN-7)."""

import pytest

from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import SECRET, VOLUME_SNAPSHOT_CONTENT
from tests.property.operations.test_engines import CONTENTS
from tests.support.operation_worlds import CONTEXT, GOOD, observed, operation, template
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.api.installation import CREDENTIALS_SECRET
from vworkspace_core.install.access import EVERYWHERE, LOCAL_OWN, OWN, TENANT, VELERO
from vworkspace_core.operations.identity import target_ref

READ = {access.kind for access in (*EVERYWHERE, *TENANT, *VELERO) if "get" in access.verbs}
MADE = {access.kind for access in (*TENANT, *VELERO) if {"create", "delete", "patch"} <= set(access.verbs)} & READ


@pytest.mark.parametrize("of", GOOD)
def test_what_an_engine_looks_up_can_be_read_and_what_it_makes_can_be_made(of: str) -> None:
    one, seen = operation(of), observed(of)
    engine = CONTEXT.engines[template(of).engine]
    target = read_application_instance(seen.objects[target_ref(one)])

    looked_up: set[Kind] = {ref.kind for ref in engine.looks_up(one, target, CONTEXT.settings)}

    assert looked_up <= READ
    assert set(engine.kinds(one)) <= MADE


def test_what_an_engine_follows_can_be_read_OPS_10() -> None:
    assert {ref.kind for ref in CONTENTS} == {VOLUME_SNAPSHOT_CONTENT}
    assert VOLUME_SNAPSHOT_CONTENT in READ


def test_which_secrets_the_operator_reads() -> None:
    """None across the cluster; a tenant's by name, and its Helm records by label (decision 185); its own by name.

    Without an agent there are no jobs, and every Secret that is read has its name in the role.
    """
    assert not any(access.kind == SECRET for access in (*EVERYWHERE, *VELERO))
    assert [access.verbs for access in TENANT if access.kind == SECRET] == [("get", "list")]
    assert [access.name for access in OWN if access.kind == SECRET and "watch" in access.verbs] == [CREDENTIALS_SECRET]
    unnamed = [access.verbs for access in LOCAL_OWN if access.kind == SECRET and not access.name]
    assert unnamed == [("create",)]
