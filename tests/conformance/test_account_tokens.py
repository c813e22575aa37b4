"""Tokens of ServiceAccounts, which `kubectl create token` asks for, and the reviews of tokens (RUN-8, RUN-9)."""

import json
from base64 import urlsafe_b64decode
from datetime import datetime, timedelta
from typing import Any, Final

from kubelab.model.calls import ADMIN
from kubelab.server import ApiServer
from tests.conformance.test_builtin_rules import Place, place, refused
from tests.support.server_thread import Answer, served, wall_clock, wired

__all__ = ["place"]

ACCOUNTS: Final = ("v1", "serviceaccounts")
REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
SELF: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def ask(place: Place, name: str = "s", **body: Any) -> Answer:
    return place.wire.send("POST", f"{place.url(*ACCOUNTS, name)}/token", body)


def account(place: Place) -> Any:
    """A ServiceAccount, as its uid."""
    made = place.wire.send("POST", place.url(*ACCOUNTS), {"metadata": {"name": "s"}})
    assert made.status == 201
    return made.json["metadata"]["uid"]


def claims(token: str) -> Any:
    part = token.split(".")[1]
    return json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def test_a_token_of_an_account_names_it(place: Place) -> None:
    uid = account(place)
    answer = ask(place, spec={"expirationSeconds": 600, "audiences": ["x", "y"]})
    assert (answer.status, answer.json["kind"]) == (201, "TokenRequest")
    meta, spec, status = (answer.json[part] for part in ("metadata", "spec", "status"))
    assert (meta["name"], meta["namespace"], meta["uid"]) == ("s", place.namespace, uid)
    assert spec == {"audiences": ["x", "y"], "expirationSeconds": 600, "boundObjectRef": None}
    made, ends = (datetime.fromisoformat(text) for text in (meta["creationTimestamp"], status["expirationTimestamp"]))
    assert ends - made == timedelta(minutes=10)
    said = claims(status["token"])
    assert (said["sub"], said["aud"]) == (f"system:serviceaccount:{place.namespace}:s", ["x", "y"])
    assert said["exp"] - said["iat"] == 600
    named = {"namespace": place.namespace, "serviceaccount": {"name": "s", "uid": uid}}
    assert said["kubernetes.io"] == named
    assert ask(place).json["spec"]["expirationSeconds"] == 3600


def test_a_token_can_end_with_an_object(place: Place) -> None:
    account(place)
    secret = place.create("v1", "Secret", "secrets", metadata={"name": "x"}).json["metadata"]["uid"]
    reference = {"kind": "Secret", "apiVersion": "v1", "name": "x"}
    bound = ask(place, spec={"boundObjectRef": reference})
    assert claims(bound.json["status"]["token"])["kubernetes.io"]["secret"] == {"name": "x", "uid": secret}
    for wrong, status, why in (
        ({"name": "none"}, 404, 'secrets "none" not found'),
        ({"kind": "ConfigMap"}, 400, "cannot bind token to object of type /v1, Kind=ConfigMap"),
        ({"uid": "other"}, 409, 'Operation cannot be fulfilled on Secret "x": the UID in the bound object reference'),
    ):
        answer = ask(place, spec={"boundObjectRef": {**reference, **wrong}})
        assert answer.status == status
        assert answer.json["message"].startswith(why)


def test_a_request_for_a_token_that_is_refused(place: Place) -> None:
    account(place)
    short = "Invalid value: 5: may not specify a duration less than 10 minutes"
    assert refused(ask(place, spec={"expirationSeconds": 5})) == [("spec.expirationSeconds", short)]
    assert refused(ask(place, metadata={"name": "q"}))[0][0] == "metadata.name"
    assert ask(place, metadata={"uid": "q"}).status == 409
    missing = ask(place, "none")
    assert (missing.status, missing.json["message"]) == (404, 'serviceaccounts "none" not found')
    assert ask(place, kind="Pod", apiVersion="v1").status == 400
    assert place.wire.send("GET", f"{place.url(*ACCOUNTS, 's')}/token").status == 405


def test_a_review_says_whose_a_token_is(place: Place) -> None:
    account(place)
    spec = {"token": ask(place).json["status"]["token"]}
    review = place.wire.send("POST", REVIEWS, {"spec": spec})
    user = review.json["status"]["user"]
    assert (review.status, review.json["status"]["authenticated"]) == (201, True)
    assert user["username"] == f"system:serviceaccount:{place.namespace}:s"
    assert user["groups"] == [
        "system:serviceaccounts",
        f"system:serviceaccounts:{place.namespace}",
        "system:authenticated",
    ]
    elsewhere = place.wire.send("POST", REVIEWS, {"spec": {**spec, "audiences": ["other"]}}).json["status"]
    assert "authenticated" not in elsewhere
    unknown = place.wire.send("POST", REVIEWS, {"spec": {"token": "x"}}).json["status"]
    assert ("authenticated" in unknown, unknown["user"], bool(unknown["error"])) == (False, {}, True)
    assert place.wire.send("POST", REVIEWS, {"spec": {}}).status == 400


def test_the_embedded_server_takes_the_tokens_that_it_gives() -> None:
    server = ApiServer(now=wall_clock, rbac=True)
    with served(server, tokens={"admin": ADMIN}) as url, wired(url, "admin") as wire, wired(url) as other:
        place = Place(wire, "default")
        account(place)
        token = ask(place).json["status"]["token"]
        bearer = f"Bearer {token}"
        me = other.send("POST", SELF, {}, authorization=bearer)
        assert me.json["status"]["userInfo"]["username"] == "system:serviceaccount:default:s"
        assert other.send("GET", "/api/v1/pods", authorization=bearer).status == 403
        foreign = ask(place, spec={"audiences": ["other"]}).json["status"]["token"]
        for wrong in (f"{bearer}x", f"Bearer {foreign}", "Bearer .", "Bearer a.b.c"):
            assert other.send("POST", SELF, {}, authorization=wrong).status == 401
        wire.send("DELETE", place.url(*ACCOUNTS, "s"))
        assert other.send("POST", SELF, {}, authorization=bearer).status == 401
