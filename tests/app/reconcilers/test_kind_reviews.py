"""PH-8: validation and defaults of a kind in Python, in a cluster in memory and when the kind is loaded."""

from typing import Any

import attrs
import pytest
from hypothesis import given

from purekube.apimachinery.errors import Invalid
from purekube.reconcilers import Resource, reviewed
from purekube_kit.fake import FakeCluster
from purekube_run.process.command_line import CommandError
from purekube_run.versions.round_trips import check_kinds
from tests.support.reviewed_shop import PLAIN, SHOP, SPECS, ShopSpec, default, growing, raising, too_large


@pytest.mark.slow
@given(SPECS)
def test_defaults_reach_the_stored_object_and_change_no_more_PH_8(spec: ShopSpec) -> None:
    with FakeCluster(SHOP) as cluster:
        made = cluster.create(SHOP.new("corner", spec))
        assert made.spec == default(attrs.evolve(made, spec=spec))
        again = cluster.change(made, {"metadata": {"labels": {"a": "b"}}})
        assert again.spec == made.spec


def test_what_is_refused_names_each_field_and_is_not_stored_PH_8() -> None:
    with FakeCluster(SHOP) as cluster:
        with pytest.raises(Invalid, match=r"spec\.tags: must not have the shop's own name"):
            cluster.create(SHOP.new("corner", ShopSpec(tags=("corner",))))
        assert not cluster.exists(SHOP, "corner")
        mine = cluster.create(SHOP.new("corner", ShopSpec(size=5)))
        with pytest.raises(Invalid, match=r"spec\.size: only the boss"):
            cluster.change(mine, size=4)
        with pytest.raises(Invalid, match="should be less than or equal to 100"):
            cluster.change(mine, size=101)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (reviewed(PLAIN, default=growing), "`default` is not idempotent"),
        (reviewed(PLAIN, default=too_large), "`default` makes an object that the API server refuses: spec.size"),
        (reviewed(PLAIN, validate=raising), "a function that reviews it raised KeyError: 'oops'"),
    ],
)
def test_mistakes_are_found_when_the_kind_is_loaded_PH_8(kind: Resource[Any, Any], told: str) -> None:
    with pytest.raises(CommandError) as raised:
        check_kinds([kind])
    assert told in raised.value.message
    assert "the spec was" in raised.value.message


def test_a_kind_whose_functions_are_sound_is_loaded_without_a_word_PH_8() -> None:
    assert check_kinds([SHOP]) == ()
