"""A process that runs applied boxes, with the webhooks that it serves to an embedded API server."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import yaml

from kubelab.http.serving import kubeconfig
from kubelab.server import ApiServer
from purekube.boxes.rollouts.applied_definition import applied_box_definition
from tests.e2e.test_webhooks import SYSTEM, laid, made
from tests.support.commands import Running, free_port, run
from tests.support.lent_server import lent
from tests.support.server_thread import Wire, served, wall_clock, wired, wired_to
from vworkspace_core.api.crd import crd_manifests

_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

FORMS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "a process of its own": (("box", "run", "--applied"), ("box", "manifests", "--applied"), "vworkspace-boxes"),
    "the operator": (
        ("run", "--no-agent", "--cluster-id=c", "--applied-boxes"),
        ("manifests", "--applied-boxes"),
        "vworkspace-operator",
    ),
}
"""The command that runs boxes, the one that prints its manifests, and its name."""


@attrs.define
class AppliedProcess:
    """The process, the API server, and a way to install what makes the server call the process's webhooks.

    `url` is where a kube-apiserver finds the webhooks, which knows no Services here; empty for the embedded one.
    """

    wire: Wire
    process: Running
    printing: tuple[str | Path, ...]
    url: str = ""

    def configuration(self) -> dict[str, Any]:
        """The printed configuration of the webhook that reviews OperatorBoxes."""
        ended = run(*self.printing)
        assert ended.status == 0, ended
        printed = [one for one in yaml.safe_load_all(ended.out) if one["kind"] == "ValidatingWebhookConfiguration"]
        (of_boxes,) = [one for one in printed if "operatorboxes" in str(one["webhooks"][0]["rules"])]
        (hook,) = of_boxes["webhooks"]
        client = hook["clientConfig"]
        if self.url:
            client = {"url": self.url + client["service"]["path"], "caBundle": client["caBundle"]}
        return {**of_boxes, "webhooks": [{**hook, "clientConfig": client}]}

    def configure(self) -> None:
        """Apply that configuration."""
        assert self.wire.send("POST", _CONFIGURATIONS, self.configuration()).status == 201


@contextmanager
def webhooks_of_applied_boxes(form: str, folder: Path, *, is_real: bool = False) -> Iterator[AppliedProcess]:
    """A process of this form that serves its webhooks, which the API server is not configured to call yet.

    That is a kube-apiserver if `is_real`.
    """
    command, printing, name = FORMS[form]
    port = free_port()
    certificates, url = made(f"{name}-webhook.{SYSTEM}.svc"), f"https://127.0.0.1:{port}"
    (laid(folder, certificates) / "authority").write_bytes(certificates.authority)
    server = _lent() if is_real else _embedded({(SYSTEM, f"{name}-webhook"): url})
    with server as (config, wire):
        (folder / "kc").write_text(yaml.safe_dump(dict(config)))
        for definition in (*crd_manifests(), applied_box_definition()):
            assert wire.send("POST", _DEFINITIONS, definition).status == 201
        words = ("--no-leader-elect", "--log-format=json", "--listen=")
        hooks = (f"--webhook-listen=127.0.0.1:{port}", f"--webhook-certificates={folder}")
        with Running(folder / "run", *command, "--kubeconfig", folder / "kc", *words, *hooks) as process:
            process.until(lambda: process.log("webhooks are served"), "the webhooks")
            authority = ("--webhook-ca", folder / "authority")
            yield AppliedProcess(wire, process, (*printing, *authority), url if is_real else "")


@contextmanager
def _embedded(services: Mapping[tuple[str, str], str]) -> Iterator[tuple[Mapping[str, Any], Wire]]:
    with served(ApiServer(now=wall_clock), services=services) as url, wired(url) as wire:
        yield kubeconfig(url), wire


@contextmanager
def _lent() -> Iterator[tuple[Mapping[str, Any], Wire]]:
    with lent() as server, wired_to(server) as wire:
        yield server.kubeconfig(), wire
