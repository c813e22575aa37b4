"""SEE-6: docs/notifications.md: its event, its settings and its objects of Flux are real."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from purekube.schema import compile_schema, validate
from tests.support.chart_values import PULLABLE
from tests.support.projects_crds import projects_crds
from vworkspace_app.install.chart_values import chart_values, values_documents
from vworkspace_app.install.network_objects import prometheus_rule
from vworkspace_app.install.options import InstallOptions

PAGE = (Path(__file__).resolve().parents[2] / "docs/notifications.md").read_text(encoding="utf-8")
YAML: list[dict[str, Any]] = [
    document for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) for document in yaml.safe_load_all(block)
]
FLUX = [document for document in YAML if document.get("apiVersion", "").startswith("notification.toolkit.fluxcd.io/")]


def test_the_values_of_the_page_mount_the_token_where_the_setting_reads_it() -> None:
    (values,) = (document for document in YAML if "settings" in document)
    documents = values_documents(chart_values({**PULLABLE, **values}), "vworkspace-system")
    (pod,) = (each["spec"]["template"]["spec"] for each in documents if each["kind"] == "Deployment")
    (container,) = pod["containers"]

    assert "--notify-token-file=/etc/notify/token" in container["args"]
    assert "--notify-url=https://hooks.example.com/vworkspace" in container["args"]
    mounted = {mount["name"] for mount in container["volumeMounts"] if mount["mountPath"] == "/etc/notify"}
    assert mounted <= {volume["name"] for volume in pod["volumes"] if "secret" in volume}
    assert mounted


def test_each_alert_links_to_the_page_where_its_address_is_set_and_only_there() -> None:
    def links(options: InstallOptions) -> set[str | None]:
        groups = prometheus_rule(options)["spec"]["groups"]
        return {rule["annotations"].get("link") for group in groups for rule in group["rules"]}

    assert links(InstallOptions(settings={"page_url": "https://ops.example.com"})) == {"https://ops.example.com"}
    assert links(InstallOptions()) == {None}


def test_the_event_of_the_page_is_json_with_every_attribute() -> None:
    (block,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    event = json.loads(block)
    assert {"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "data"} == set(event)


@pytest.mark.slow
@pytest.mark.parametrize("document", FLUX, ids=[document["kind"] for document in FLUX])
def test_objects_of_flux_are_valid_by_its_own_definitions(document: dict[str, Any]) -> None:
    plural = document["kind"].lower() + "s"
    crds = projects_crds()
    name = f"{plural}.notification.toolkit.fluxcd.io"
    if name not in crds:
        pytest.skip(f"the definition {name} is not at hand: it belongs to notification-controller")
    served = {version["name"]: version for version in crds[name]["spec"]["versions"]}
    version = served[document["apiVersion"].rpartition("/")[2]]
    assert list(validate(compile_schema(version["schema"]["openAPIV3Schema"]), document)) == []
