"""The objects that an applied box needs in the cluster: admission policies, and a webhook that converts (PH-10).

An applied box is an operator that a user defines by an OperatorBox object. A user with the right to write such objects
applies them; the operator only reads them.
"""

from typing import Final

import attrs

from purekube.apimachinery.errors import KindMissing, NotFound
from purekube.apimachinery.manifest import Kind, Manifest, ref_of
from purekube.apimachinery.meta import ObjectMeta
from purekube.apimachinery.problems import Place
from purekube.boxes.box import Box
from purekube.boxes.read import BoxProblem
from purekube.boxes.webhooks.admission_policy import MUTATING_BINDING, MUTATING_POLICY, SINCE, is_enforced_by, policy_of
from purekube.boxes.webhooks.conversion_webhook import VALIDATING_CONFIGURATION, ConversionWebhook
from purekube.boxes.webhooks.kind_webhooks import FROM_FILE, NOT_COMPUTED, WebhookDuties
from purekube.ports import Clock, KubeApi
from purekube_run.controller.lookups import all_of

_RULES: Final = ("spec.validation", "for rules that no CRD can check")
_VALUES: Final = ("spec.mutation", "for values that no CRD can compute")
_VERSIONS: Final = Place("spec.versions")
_NOT_INSTALLED: Final = (
    "no ValidatingWebhookConfiguration of OperatorBoxes names the operator's webhook, which converts: print the "
    "manifests of this installation with --cert-manager, or --webhook-ca ca.crt, and apply them"
)
_NOT_SERVED: Final = (
    "this process serves no webhook, which converts: give it --webhook-listen and --webhook-certificates"
)
_SECONDS: Final = 60.0
"""The seconds for which the result of a check without problems is cached."""


@attrs.frozen(eq=False)
class Requirements:
    """The result of checking whether a cluster has the objects that a box (an operator defined in YAML) needs.

    `problems` has a problem for each object that is missing or differs. `webhook` is the webhook that converts between
    the box's versions; None if the box has no versions to convert, or if there is a problem.
    """

    problems: tuple[BoxProblem, ...] = ()
    webhook: ConversionWebhook | None = None


async def requirements_of(api: KubeApi, box: Box, *, serves_webhooks: bool) -> Requirements:
    """Check whether the cluster has the objects that a box needs, and return the result.

    `serves_webhooks` is True if this process serves webhooks. If it is False, a box whose objects must be converted
    between versions gets a problem, because nothing would convert them. Raises the OperatorErrors of `KubeApi.get` and
    `KubeApi.list`.
    """
    problems = await policy_problems(api, box)
    if not WebhookDuties.of(box).versions:
        return Requirements(problems)
    webhook = await _conversion_webhook(api, box, serves_webhooks=serves_webhooks)
    if isinstance(webhook, str):
        return Requirements((*problems, BoxProblem(_VERSIONS, f"{webhook}, {FROM_FILE}")))
    return Requirements(problems, webhook)


@attrs.define(eq=False)
class KnownRequirements:
    """A cache of the results of `requirements_of`: whether the cluster has the objects that each box needs.

    The requirements of a box are checked again when the box changes, and after a minute.
    """

    api: KubeApi
    clock: Clock
    serves_webhooks: bool
    _known: dict[str, tuple[str, float, Requirements]] = attrs.field(factory=dict)
    """Three values for each box, by its name: the resourceVersion for which its requirements were checked, the
    monotonic time until which they are cached, and the requirements."""

    async def of(self, meta: ObjectMeta, box: Box | None) -> Requirements:
        """Return the result of checking whether the cluster has the objects that an OperatorBox needs.

        `meta` is the metadata of the OperatorBox, and `box` its compiled definition. The result is cached for a minute,
        unless it has problems: then the cluster is checked again at each call. If the box does not compile (None),
        nothing is checked, and the result has no problems.
        """
        if box is None:
            return Requirements()
        version, until, known = self._known.get(meta.name, ("", 0.0, Requirements()))
        if version == meta.resource_version and self.clock.monotonic() < until:
            return known
        found = await requirements_of(self.api, box, serves_webhooks=self.serves_webhooks)
        self._known[meta.name] = (
            "" if found.problems else meta.resource_version,
            self.clock.monotonic() + _SECONDS,
            found,
        )
        return found

    def forget(self, name: str) -> None:
        """Remove the cached result for the box `name`, which no longer exists."""
        self._known.pop(name, None)


async def policy_problems(api: KubeApi, box: Box) -> tuple[BoxProblem, ...]:
    """Return the problems if the cluster lacks an admission policy that the box needs.

    There is at most one problem for the policy that validates the box's rules, and one for the policy that sets its
    computed values. Raises the OperatorErrors of `KubeApi.get`.
    """
    found: dict[str, BoxProblem] = {}
    for kind, wanted in policy_of(box).items():
        path, duty = _VALUES if kind in (MUTATING_POLICY, MUTATING_BINDING) else _RULES
        if path not in found and (message := await _unenforced(api, kind, wanted, duty)):
            found[path] = BoxProblem(Place(path), message)
    return tuple(found.values())


async def _unenforced(api: KubeApi, kind: Kind, wanted: Manifest, duty: str) -> str:
    """Return "" if the cluster has the admission policy or binding `wanted`, else a message that it is missing or
    differs.

    `duty` is a phrase for the message: the task of the policy.
    """
    ref = ref_of(wanted, kind)
    try:
        live = await api.get(ref)
    except KindMissing:
        other = f"write a literal, {NOT_COMPUTED}" if kind == MUTATING_POLICY else FROM_FILE.removeprefix("or ")
        return f"the cluster serves no {kind.kind}, {duty}: that takes Kubernetes {SINCE[kind]}; {other}"
    except NotFound:
        live = None
    if is_enforced_by(wanted, live):
        return ""
    return (
        f"the {ref} is not there, or is another, {duty}: apply it as `box manifests FILE --as-object` prints it, "
        "before the box"
    )


async def _conversion_webhook(api: KubeApi, box: Box, *, serves_webhooks: bool) -> ConversionWebhook | str:
    """Return the webhook that converts between the versions of the box, or a message that there is none.

    It is that of the server which validates OperatorBoxes. An installed CRD that the box names must have it already.
    """
    if not serves_webhooks:
        return _NOT_SERVED
    webhook = ConversionWebhook.of_box_reviews(await all_of(api, VALIDATING_CONFIGURATION))
    if webhook is None:
        return _NOT_INSTALLED
    if box.model.spec.crd.name and not webhook.converts(box.crd):
        return (
            f"the CRD {box.kind.crd_name} sends its conversions elsewhere, or nowhere: write spec.crd: {{spec: …}}, "
            "which is applied with the operator's webhook"
        )
    return webhook
