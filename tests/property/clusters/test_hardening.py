"""The Cluster says what stands open, by the setting that opens it, and what closes it (RUN-12, M6)."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.meta import ConditionStatus
from vworkspace_core.api.admission import AdmissionSettings
from vworkspace_core.api.chart import Policy
from vworkspace_core.api.vocabulary import is_admitted
from vworkspace_core.clusters.inventory import (
    WeakSettings,
    hardened_condition,
    weak_settings_of,
    weak_settings_of_cluster,
)
from vworkspace_core.instances.context import Settings
from vworkspace_core.operations.approvals import DEFAULT_BINDINGS
from vworkspace_core.operations.settings import OperationSettings

STRICT = Settings("c")
CLOSED = OperationSettings("c", allowed_images=("registry.example.com/",))


def test_the_strict_settings_leave_nothing_open() -> None:
    assert list(weak_settings_of(STRICT, CLOSED, DEFAULT_BINDINGS)) == []


def test_each_opening_names_its_setting() -> None:
    unimpersonated = attrs.evolve(STRICT, default_service_account=None, allow_unimpersonated_releases=True)
    plain = attrs.evolve(STRICT, admission=AdmissionSettings(allow_http=True))
    cases = {
        "--allow-unimpersonated-releases": (unimpersonated, CLOSED, DEFAULT_BINDINGS),
        "--allowed-images": (STRICT, OperationSettings("c"), DEFAULT_BINDINGS),
        "--required-claim-bindings": (STRICT, CLOSED, frozenset[str]()),
        "--allow-http": (plain, CLOSED, DEFAULT_BINDINGS),
    }
    for flag, case in cases.items():
        (told,) = weak_settings_of(*case)
        assert told.startswith(flag)


exposures = st.builds(
    weak_settings_of_cluster,
    st.lists(st.sampled_from(("--allow-http: x", "--allowed-images is empty: y")), unique=True),
    st.lists(st.from_regex(r"[a-z]{1,63}", fullmatch=True), max_size=2000, unique=True),
    st.sampled_from((Policy(), Policy(("oci://a",)))),
    unsigned=st.booleans(),
)


@given(exposures)
def test_it_is_hardened_exactly_where_nothing_is_open_and_its_message_stays_short(found: WeakSettings) -> None:
    desired = hardened_condition(found)
    is_open = bool(found.settings or found.unguarded or found.unsigned or found.any_chart_source)
    assert (desired.status is ConditionStatus.FALSE) is is_open
    assert is_admitted("Cluster", desired.type, desired.status, desired.reason)
    assert all(setting in desired.message for setting in found.settings)
    assert len(desired.message) < 2048


@pytest.mark.parametrize(("number", "more"), [(1, ""), (5, ""), (6, " and 1 more"), (9, " and 4 more")])
def test_at_most_five_namespaces_are_named_and_the_others_counted(number: int, more: str) -> None:
    names = [f"org-{letter}" for letter in "ihgfedcba"[-number:]]
    told = hardened_condition(WeakSettings(unguarded=tuple(names))).message

    assert f"without Pod Security: {', '.join(sorted(names)[:5])}{more} (label them" in told
