"""PH-10: the webhook that converts an applied box's versions is that of the server which reviews OperatorBoxes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.definitions import OPERATOR_BOX
from purekube.boxes.webhooks.conversion_webhook import ConversionWebhook
from tests.support.boxes import crd

RULE = {"apiGroups": [OPERATOR_BOX.group], "resources": [OPERATOR_BOX.plural]}
REVIEWS = {"name": "boxes-webhook", "namespace": "system", "path": "/operatorboxes/validate", "port": 443}
CONVERTS = {**REVIEWS, "path": "/convert"}
INJECTED = {"cert-manager.io/inject-ca-from": "system/boxes-webhook"}


def configuration(client: Any, *rules: Any, **annotations: str) -> dict[str, Any]:
    hook = {"name": "a", "clientConfig": client, "rules": list(rules)}
    return {"metadata": {"name": "boxes", "annotations": annotations}, "webhooks": [hook]}


def found(*configurations: Any) -> ConversionWebhook | None:
    return ConversionWebhook.of_box_reviews(configurations)


@pytest.mark.parametrize(
    ("given_client", "converting"),
    [
        ({"service": REVIEWS, "caBundle": "YQ=="}, {"service": CONVERTS, "caBundle": "YQ=="}),
        ({"service": {key: REVIEWS[key] for key in ("name", "namespace", "path")}}, {"service": CONVERTS}),
        (
            {"url": "https://boxes/operatorboxes/validate", "caBundle": "YQ=="},
            {"url": "https://boxes/convert", "caBundle": "YQ=="},
        ),
    ],
)
def test_it_is_another_path_of_the_same_server(given_client: Any, converting: Any) -> None:
    assert found(configuration(given_client, RULE)) == ConversionWebhook(converting)


def test_a_definition_is_registered_as_a_copy() -> None:
    """CRDs come from a cache, which must stay as it was read."""
    bare = {"metadata": {"name": "shops"}, "spec": {"group": "a"}}
    kept = {"metadata": {"name": "shops", "annotations": {"a": "b"}}, "spec": {"group": "a"}}
    webhook = {"clientConfig": {"service": CONVERTS}, "conversionReviewVersions": ["v1"]}
    spec = {"group": "a", "conversion": {"strategy": "Webhook", "webhook": webhook}}
    injecting, other = ConversionWebhook({"service": CONVERTS}, INJECTED), ConversionWebhook({"service": CONVERTS})

    assert injecting.registered_in(bare) == {"metadata": {"name": "shops", "annotations": INJECTED}, "spec": spec}
    assert injecting.registered_in(kept)["metadata"]["annotations"] == {"a": "b", **INJECTED}
    assert other.registered_in(kept) == {"metadata": kept["metadata"], "spec": spec}
    assert bare == {"metadata": {"name": "shops"}, "spec": {"group": "a"}}
    assert kept["metadata"] == {"name": "shops", "annotations": {"a": "b"}}


@pytest.mark.parametrize(
    "other",
    [
        configuration({"service": REVIEWS}),
        configuration({"service": REVIEWS}, {**RULE, "apiGroups": ["apps"]}),
        configuration({"service": REVIEWS}, {**RULE, "resources": ["shops"]}),
        configuration({"service": {**REVIEWS, "path": "/validate"}}, RULE),
        configuration({"url": "https://boxes/validate"}, RULE),
        configuration({}, RULE),
        {"metadata": {"name": "empty"}},
        {"metadata": {"name": "without rules"}, "webhooks": [{"name": "a", "clientConfig": {"service": REVIEWS}}]},
        {"metadata": {"name": "nulls", "annotations": None}, "webhooks": None},
        configuration({"service": REVIEWS}, {"apiGroups": None, "resources": None}),
        configuration({"service": REVIEWS}, {**RULE, "resources": None}),
        configuration({"service": None, "url": None}, RULE),
        configuration(None, RULE),
        {"metadata": {"name": "of nothing"}, "webhooks": [{"name": "a"}]},
    ],
)
def test_another_webhook_converts_nothing_and_stands_in_nobodys_way(other: Any) -> None:
    assert found(other) is None
    assert found(other, configuration({"service": REVIEWS}, RULE)) == ConversionWebhook({"service": CONVERTS})


def test_where_cert_manager_writes_the_authority_it_writes_it_into_the_definition_too() -> None:
    webhook = found(configuration({"service": REVIEWS, "caBundle": "b2xk"}, RULE, **INJECTED, other="x"))
    assert webhook == ConversionWebhook({"service": CONVERTS}, INJECTED)
    registered = webhook.registered_in({**crd(), "metadata": {"name": "shops.example.com", "annotations": {"a": "b"}}})
    assert registered["metadata"] == {"name": "shops.example.com", "annotations": {"a": "b", **INJECTED}}


@given(st.dictionaries(st.sampled_from(("caBundle",)), st.text()), st.booleans())
def test_a_definition_in_which_it_is_registered_is_converted_by_it_and_otherwise_the_same(
    trusted: dict[str, str], is_injected: bool
) -> None:
    webhook = ConversionWebhook({"service": CONVERTS, **trusted}, INJECTED if is_injected else {})
    registered = webhook.registered_in(crd())
    assert webhook.converts(registered)
    assert not webhook.converts(crd())
    assert ConversionWebhook({"service": {**CONVERTS, "name": "another"}}).converts(registered) is False
    assert {**registered["spec"], "conversion": None} == {**crd()["spec"], "conversion": None}
    assert registered["spec"]["conversion"]["strategy"] == "Webhook"
    assert registered["spec"]["conversion"]["webhook"]["clientConfig"] == webhook.client


def test_the_conversion_of_a_definition_is_the_webhook_s_and_nothing_else_changes() -> None:
    before = {**crd(), "metadata": {"name": "shops.example.com", "annotations": {"a": "b"}}, "status": {"x": 1}}
    webhook = {"clientConfig": {"service": CONVERTS, "caBundle": "YQ=="}, "conversionReviewVersions": ["v1"]}
    registered = ConversionWebhook({"service": CONVERTS, "caBundle": "YQ=="}).registered_in(before)

    assert registered == {
        **before,
        "spec": {**before["spec"], "conversion": {"strategy": "Webhook", "webhook": webhook}},
    }


def test_the_url_of_a_webhook_is_its_whole_address() -> None:
    webhook = ConversionWebhook({"url": "https://boxes/convert", "caBundle": "YQ=="})

    assert webhook.converts(ConversionWebhook({"url": "https://boxes/convert"}).registered_in(crd()))
    assert not webhook.converts(ConversionWebhook({"url": "https://other/convert"}).registered_in(crd()))
    assert not webhook.converts(ConversionWebhook({"service": CONVERTS}).registered_in(crd()))
