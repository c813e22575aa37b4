"""A small controller of Greetings, as a program: `python greetings_controller.py KUBECONFIG TRAIT…`.

It uses the standard library alone, so that it starts at once. Without traits it is correct; each trait changes one
thing that it does. The examiner of controllers is examined with it (CONF-2).
"""

import json
import re
import secrets
import sys
import threading
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

GREETINGS = "/apis/example.com/v1/greetings"
FINALIZER = "example.com/greetings"
SERVER = re.compile(r"server: (\S+)")

CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "greetings.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "greetings", "singular": "greeting", "kind": "Greeting", "listKind": "GreetingList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}
"""The definition of the kind."""


def greeting(**spec: Any) -> dict[str, Any]:
    """Return a manifest of a Greeting with this spec."""
    return {"apiVersion": "example.com/v1", "kind": "Greeting", "metadata": {"name": "world"}, "spec": spec}


class Controller:
    """The controller: it lists all Greetings ten times a second, and keeps a ConfigMap for each word in `who`."""

    def __init__(self, kubeconfig: str, traits: set[str]) -> None:
        found = SERVER.search(Path(kubeconfig).read_text(encoding="utf-8"))
        assert found is not None
        self.server = found[1]
        self.traits = traits
        self.given_up: set[str] = set()
        self.cached: set[str] = set()
        self.begins = time.monotonic() + ("begins-late" in traits) * 3.0

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Send a request, and return the parsed answer. Raises HTTPError for a refusal."""
        media = "application/merge-patch+json" if method == "PATCH" else "application/json"
        head = {"content-type": media, "user-agent": "greetings/1", **headers}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.server + path, data, head, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def found(self, path: str) -> Any:
        """Return the object at a path, or None."""
        try:
            return self.call("GET", path)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def watch(self, path: str) -> None:
        """Keep a watch open, and the names that it has brought."""
        while True:
            try:
                with urllib.request.urlopen(f"{self.server}{path}?watch=true", timeout=600) as stream:
                    while line := stream.readline():
                        meta = json.loads(line)["object"].get("metadata", {})
                        self.cached.add(f"{meta.get('namespace')}/{meta.get('name')}")
            except OSError:
                time.sleep(0.05)

    def run(self) -> None:
        """Work for ever."""
        for path in (GREETINGS, "/api/v1/configmaps"):
            threading.Thread(target=self.watch, args=[path], daemon=True).start()
        while time.monotonic() < self.begins:
            time.sleep(0.1)
        if "writes-at-start" in self.traits:
            for live in self.call("GET", GREETINGS)["items"]:
                meta = {"annotations": {"example.com/started": secrets.token_hex(2)}}
                where = f"/apis/example.com/v1/namespaces/{live['metadata']['namespace']}/greetings"
                self.call("PATCH", f"{where}/{live['metadata']['name']}", {"metadata": meta})
        while True:
            try:
                for live in self.call("GET", GREETINGS)["items"]:
                    self.attempt(live)
            except OSError:
                pass
            time.sleep(0.1)

    def attempt(self, live: Any) -> None:
        """Reconcile one object, and try again later if that fails."""
        uid = live["metadata"]["uid"]
        if uid in self.given_up:
            return
        try:
            self.reconcile(live)
        except OSError:
            if "gives-up" in self.traits:
                self.given_up.add(uid)
            else:
                time.sleep(0.3)

    def reconcile(self, live: Any) -> None:
        """Make what is missing for one object."""
        meta = live["metadata"]
        path = f"/apis/example.com/v1/namespaces/{meta['namespace']}/greetings/{meta['name']}"
        finalizers = meta.get("finalizers", [])
        if meta.get("deletionTimestamp"):
            if FINALIZER in finalizers and "never-lets-go" not in self.traits:
                self.call("PATCH", path, {"metadata": {"finalizers": [f for f in finalizers if f != FINALIZER]}})
            return
        if "finalizer" in self.traits and FINALIZER not in finalizers:
            self.call("PATCH", path, {"metadata": {"finalizers": [*finalizers, FINALIZER]}})
        if "defaults" in self.traits and live["spec"].get("seen") != live["spec"].get("who"):
            live = self.call("PATCH", path, {"spec": {"seen": live["spec"].get("who")}})
        for word in str(live["spec"].get("who")).split():
            self.child(live, word)
        self.status(live, path)

    def child(self, live: Any, word: str) -> None:
        """Make the ConfigMap of one word, unless it is there."""
        meta = live["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/configmaps"
        name = f"{meta['name']}-{word.lower()}"
        if "trusts-its-cache" in self.traits:
            if any(known.startswith(f"{meta['namespace']}/{name}-") for known in self.cached):
                return
            name = f"{name}-{secrets.token_hex(2)}"
        elif "random-names" in self.traits:
            owned = [one for one in self.call("GET", path)["items"] if self.owns(live, one)]
            if owned:
                return
            name = f"{name}-{secrets.token_hex(2)}"
        elif (there := self.found(f"{path}/{name}")) is not None:
            text = live["spec"].get("text", "hello")
            if self.owns(live, there) and there["data"]["text"] != text:
                self.call("PATCH", f"{path}/{name}", {"data": {"text": text}})
            return
        owner = {"apiVersion": live["apiVersion"], "kind": live["kind"], "name": meta["name"], "uid": meta["uid"]}
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": [owner]}}
        self.call("POST", path, {**made, "data": {"text": live["spec"].get("text", "hello")}})

    def owns(self, live: Any, child: Any) -> bool:
        """Report whether an object has an owner reference to the Greeting."""
        return any(each["uid"] == live["metadata"]["uid"] for each in child["metadata"].get("ownerReferences", ()))

    def status(self, live: Any, path: str) -> None:
        """Write the status if it is not of this generation."""
        generation, status = live["metadata"]["generation"], live.get("status", {})
        conditions = {each["type"]: each for each in status.get("conditions", ())}
        if status.get("observedGeneration") == generation or ("says-it-once" in self.traits and status):
            return
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        former = conditions.get("Ready", {})
        said = "False" if live["spec"].get("who") == "nobody" else "True"
        same = former.get("status") == said or ("stopped-clock" in self.traits and former)
        ready = {
            "type": "Ready", "status": said, "reason": "Greeted", "message": "",
            "lastTransitionTime": former["lastTransitionTime"] if same else now, "observedGeneration": generation,
        }  # fmt: skip
        kept = [each for name, each in conditions.items() if name != "Ready"]
        self.call(
            "PATCH", f"{path}/status", {"status": {"observedGeneration": generation, "conditions": [*kept, ready]}}
        )


def has_started(traits: set[str]) -> bool:
    """Report whether an earlier process left the file of the trait `starts-once=FILE`, and leave it."""
    for file in (Path(each.partition("=")[2]) for each in traits if each.startswith("starts-once=")):
        if file.exists():
            return True
        file.touch()
    return False


if __name__ == "__main__":
    if has_started(set(sys.argv[2:])):
        sys.exit("it started before")
    Controller(sys.argv[1], set(sys.argv[2:])).run()
