"""PH-10: what a box needs in the cluster, and what its author is told where it is missing."""

from typing import Any

import attrs
import pytest

from purekube.apimachinery.definitions import OPERATOR_BOX
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.meta import ObjectMeta
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.boxes.rollouts.revisions import CONTROLLER_REVISION, revision_manifest
from purekube.boxes.webhooks.conversion_webhook import APPLIED_BOX_PATH, VALIDATING_CONFIGURATION, ConversionWebhook
from purekube_run.boxes.applied_converters import AppliedConverters
from purekube_run.boxes.applied_load import KnownDefinitions, load_definition
from purekube_run.boxes.requirements import KnownRequirements, requirements_of
from tests.support.box_site import NS, QUICK, BoxSite, in_process
from tests.support.boxes import config, crd
from tests.support.run_by import run_by

SERVICE = {"name": "boxes-webhook", "namespace": "system", "port": 443}
WEBHOOK = ConversionWebhook({"service": {**SERVICE, "path": "/convert"}})


def definition(**crd_source: Any) -> dict[str, Any]:
    up, down = {"spec.image": "${old.spec.image}"}, {"spec.image": "${self.spec.image}"}
    versions = [{"name": "v1"}, {"name": "v1alpha1", "up": up, "down": down, "keeps": "annotation"}]
    return {"crd": crd_source, "versions": versions, "resources": [config("settings", "${self.metadata.name}")]}


def two_versions() -> dict[str, Any]:
    (stored,) = crd()["spec"]["versions"]
    return {**crd(), "spec": {**crd()["spec"], "versions": [stored, {**stored, "name": "v1alpha1", "storage": False}]}}


async def install_webhook(site: BoxSite) -> None:
    of_boxes = {"apiGroups": [OPERATOR_BOX.group], "resources": [OPERATOR_BOX.plural]}
    rules = [{**of_boxes, "apiVersions": ["*"], "operations": ["CREATE"]}]
    client = {"service": {**SERVICE, "path": APPLIED_BOX_PATH}}
    hook = {"name": "boxes.example.com", "admissionReviewVersions": ["v1"], "clientConfig": client, "rules": rules}
    quiet = {**hook, "sideEffects": "None", "failurePolicy": "Ignore"}
    whole = {**VALIDATING_CONFIGURATION.manifest("boxes"), "webhooks": [quiet]}
    await site.admin.create(whole, kind=VALIDATING_CONFIGURATION, field_manager="setup")


async def told(site: BoxSite, spec: Manifest, *, serves_webhooks: bool = True) -> tuple[str, ConversionWebhook | None]:
    box = (await load_definition(site.api, "shops", spec)).box
    assert box is not None
    needed = await requirements_of(site.api, box, serves_webhooks=serves_webhooks)
    return "\n".join(str(problem) for problem in needed.problems), needed.webhook


@run_by(in_process, QUICK)
async def test_versions_need_a_process_and_a_configuration_and_a_webhook_is_that_of_reviews_PH_10(
    site: BoxSite,
) -> None:
    inline = definition(spec=two_versions()["spec"])
    message, webhook = await told(site, inline)
    assert message.startswith("spec.versions: no ValidatingWebhookConfiguration of OperatorBoxes names")
    assert webhook is None
    await install_webhook(site)
    assert await told(site, inline) == ("", WEBHOOK)
    message, webhook = await told(site, inline, serves_webhooks=False)
    assert "this process serves no webhook, which converts: give it --webhook-listen" in message
    assert webhook is None
    once = {**inline, "versions": [], "crd": {"spec": crd()["spec"]}}
    assert await told(site, once, serves_webhooks=False) == ("", None)


@pytest.mark.parametrize("is_ours", [True, False])
@run_by(in_process, QUICK)
async def test_an_installed_definition_has_to_be_converted_by_the_operator_PH_10(
    site: BoxSite, *, is_ours: bool
) -> None:
    await install_webhook(site)
    elsewhere = ConversionWebhook({"url": "https://elsewhere.example.com/convert"})
    await site.install((WEBHOOK if is_ours else elsewhere).registered_in(two_versions()))
    message, webhook = await told(site, definition(name="shops.example.com"))
    assert (message, webhook) == ("", WEBHOOK) if is_ours else webhook is None
    assert is_ours or "the CRD shops.example.com sends its conversions elsewhere, or nowhere" in message


@run_by(in_process, QUICK)
async def test_what_was_found_counts_for_a_minute_and_what_is_missing_for_no_time_PH_10(site: BoxSite) -> None:
    box = (await load_definition(site.api, "shops", definition(spec=two_versions()["spec"]))).box
    known = KnownRequirements(site.api, site.clock, serves_webhooks=True)
    applied = ObjectMeta(name="shops", resource_version="1")
    assert (await known.of(applied, box)).webhook is None
    await install_webhook(site)
    assert (await known.of(applied, box)).webhook == WEBHOOK
    await site.admin.delete(ObjectRef(VALIDATING_CONFIGURATION, None, "boxes"))
    assert (await known.of(applied, box)).webhook == WEBHOOK
    assert (await known.of(applied, None)).webhook is None
    assert (await known.of(attrs.evolve(applied, resource_version="2"), box)).webhook is None
    await install_webhook(site)
    assert (await known.of(applied, box)).webhook == WEBHOOK
    await site.admin.delete(ObjectRef(VALIDATING_CONFIGURATION, None, "boxes"))
    await site.clock.sleep(61)
    assert (await known.of(applied, box)).webhook is None


@run_by(in_process, QUICK)
async def test_a_field_that_an_installed_definition_gets_later_is_converted_too_PH_10(site: BoxSite) -> None:
    """The converter of a box that names its CRD has the schemas of the CRD as it is now."""
    await site.install(two_versions())
    spec = definition(name="shops.example.com")
    owner = ObjectMeta(name="shops", uid="u")
    await site.namespace()
    revision = revision_manifest(owner, NS, spec, 1)
    await site.admin.create(revision, kind=CONTROLLER_REVISION, field_manager="setup")
    converters = AppliedConverters(site.api, site.clock, NS)
    shop = {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "a"}}
    written = {**shop, "spec": {"image": "r/x:1", "parts": [], "color": "red"}}
    (before,) = await converters.of_group("example.com")
    assert "color" not in before.convert(written, "v1alpha1")["spec"]
    grown = two_versions()["spec"]["versions"]
    for version in grown:
        whole = version["schema"]["openAPIV3Schema"]
        fields = {**whole["properties"]["spec"]["properties"], "color": {"type": "string"}}
        properties = {**whole["properties"], "spec": {**whole["properties"]["spec"], "properties": fields}}
        version["schema"] = {"openAPIV3Schema": {**whole, "properties": properties}}
    await site.edit(ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, "shops.example.com"), {"spec": {"versions": grown}})
    await site.clock.sleep(1)
    (after,) = await converters.of_group("example.com")
    assert after.convert(written, "v1alpha1")["spec"]["color"] == "red"
    assert await converters.of_group("elsewhere.example.com") == []


@pytest.mark.slow
@run_by(in_process, QUICK)
async def test_of_a_box_that_is_edited_a_hundred_times_the_definitions_at_hand_stay_few_RUN_11(site: BoxSite) -> None:
    known = KnownDefinitions(site.api)
    specs = [
        {**definition(spec=crd()["spec"]), "versions": [], "rollout": {"progressDeadline": f"{n}s"}}
        for n in range(1, 101)
    ]
    for before, spec in zip([specs[0], *specs], specs, strict=False):
        assert (await known.of("shops", spec)).box is not None
        known.keep("shops", (before, spec))
    assert len(known) == 2
    known.keep("shops", ())
    assert len(known) == 0
