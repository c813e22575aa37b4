"""What `uninstall` says before it begins: the question, and what it refuses (RUN-7)."""

from typing import Any

import pytest

from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.meta import ABANDON
from vworkspace_app.commands.uninstall import question
from vworkspace_app.uninstall import Inventory
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import FINALIZER


def instance(name: str, **meta: Any) -> Manifest:
    return {**APPLICATION_INSTANCE.manifest(name, "org"), "metadata": {"name": name, "namespace": "org", **meta}}


def deployed(name: str, **meta: Any) -> Manifest:
    return instance(name, uid=name, finalizers=[FINALIZER], **meta)


MARKED = deployed("marked", annotations={ABANDON: "true"})


@pytest.mark.parametrize(
    ("instances", "keep", "said"),
    [
        ((), False, "This would remove the operator."),
        ((instance("foreign"),), False, "This would remove the operator."),
        (
            (deployed("a"),),
            False,
            "This would remove the operator and uninstall 1 application, with what the charts delete.",
        ),
        (
            (deployed("a"), deployed("b"), MARKED),
            False,
            "This would remove the operator and uninstall 2 applications, with what the charts delete. "
            f"1 application, marked {ABANDON}, would stay.",
        ),
        ((), True, "This would remove the operator."),
        ((deployed("a"), MARKED), True, "This would remove the operator. 2 applications would stay with Flux alone."),
    ],
)
def test_the_question_is_a_sentence_for_any_number_of_applications(
    instances: tuple[Manifest, ...], keep: bool, said: str
) -> None:
    assert question(Inventory("system", instances=instances), keep_applications=keep) == said
