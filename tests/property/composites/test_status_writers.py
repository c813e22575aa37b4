"""PH-9, D24: one controller writes the statuses of a kind."""

from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.manifest import Kind, Manifest
from purekube.composites.status_writers import StatusWriter, other_writer, refusal, shared_statuses
from purekube.controller.managed_fields import StatusOwner

SHOP = Kind("example.com", "v1", "Shop", "shops")
KINDS = st.builds(
    lambda group, version, plural: Kind(group, version, plural.capitalize(), plural),
    st.sampled_from(("example.com", "example.org")),
    st.sampled_from(("v1", "v1beta1")),
    st.sampled_from(("shops", "carts")),
)
WRITERS = st.builds(StatusWriter, KINDS, st.sampled_from(("box a", "box b", "controller c", "operator")))
OWNER = StatusOwner("vworkspace-box.mine", {SHOP: frozenset(("Ready", "Stalled"))})


@given(st.lists(WRITERS, max_size=6))
def test_some_run_together_exactly_if_no_two_write_the_status_of_one_kind_in_any_version(
    writers: list[StatusWriter],
) -> None:
    resources = [(writer.kind.group, writer.kind.plural) for writer in writers]
    told = list(shared_statuses(writers))

    assert bool(told) == (len(set(resources)) < len(resources))
    for sentence in told:
        assert "run one of them" in sentence


def shop(*held: tuple[str, str]) -> Manifest:
    """A shop of which managers hold conditions."""
    entries = [
        {
            "manager": manager,
            "operation": "Apply",
            "subresource": "status",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:status": {"f:conditions": {f'k:{{"type":"{kind}"}}': {"f:status": {}}}}},
        }
        for manager, kind in held
    ]
    return {**SHOP.manifest("corner", "team"), "metadata": {"name": "corner", "managedFields": entries}}


MANAGERS = st.sampled_from(("vworkspace-box.mine", "vworkspace-box.other", "vworkspace-controller.c", "kubectl-edit"))


@given(st.lists(st.tuples(MANAGERS, st.sampled_from(("Ready", "Stalled", "Theirs"))), max_size=4))
def test_another_writer_is_a_controller_that_holds_a_condition_of_ours_and_not_a_person(
    held: list[tuple[str, str]],
) -> None:
    ours = {kind for manager, kind in held if manager == "vworkspace-box.mine"}
    others = [
        manager
        for manager, kind in held
        if manager.startswith("vworkspace-")
        and manager != "vworkspace-box.mine"
        and kind in {"Ready", "Stalled"} - ours
    ]
    found = other_writer(OWNER, shop(*held))

    assert bool(found) == bool(others)
    if others:
        assert found in ("box other", "controller c")
        assert found in refusal("box mine", found, "kubectl patch …")
