"""Scenarios about values that come from elsewhere."""

from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.resources import CONFIG_MAP, SECRET
from tests.support.flux_scenarios.registry import ready, scenario
from tests.support.flux_stage import Stage, conditions, is_ready


@scenario
def values_are_missing(stage: Stage) -> None:
    """Values from a Secret that is not there, and then is."""
    stage.push("settings", "1.0.0")
    stage.want("settings", "1.0.0", patch={"valuesFrom": [{"kind": "Secret", "name": "values"}]})
    stage.until(lambda release: conditions(release).get("Ready") == "False/ValuesError")
    stage.create(SECRET, "values", stringData={"values.yaml": "motto: new"})
    stage.until(ready("1.0.0"))


@scenario
def watched_values_change(stage: Stage) -> None:
    """Values in a Secret with Flux's watch label change: an upgrade without a new generation."""
    stage.push("settings", "1.0.0")
    watched = {"name": "values", "namespace": stage.namespace, "labels": {"reconcile.fluxcd.io/watch": "Enabled"}}
    stage.create(SECRET, "values", metadata=watched, stringData={"values.yaml": "motto: old"})
    stage.want("settings", "1.0.0", patch={"valuesFrom": [{"kind": "Secret", "name": "values"}]})
    stage.until(ready("1.0.0"))
    stage.patch({"stringData": {"values.yaml": "motto: new"}}, SECRET, "values")
    stage.until(lambda release: conditions(release).get("Ready") == "True/UpgradeSucceeded" and is_ready(release))


@scenario
def values_from_a_config_map(stage: Stage) -> None:
    """Values in a ConfigMap with Flux's watch label: they are used, and a change of them is an upgrade."""
    stage.push("settings", "1.0.0")
    watched = {"name": "values", "namespace": stage.namespace, "labels": {"reconcile.fluxcd.io/watch": "Enabled"}}
    stage.create(CONFIG_MAP, "values", metadata=watched, data={"values.yaml": "motto: old"})
    stage.want("settings", "1.0.0", patch={"valuesFrom": [{"kind": "ConfigMap", "name": "values"}]})
    stage.until(ready("1.0.0"))
    stage.patch({"data": {"values.yaml": "motto: new"}}, CONFIG_MAP, "values")
    stage.until(_is_upgraded)


@scenario
def unwatched_values_change(stage: Stage) -> None:
    """Values in a Secret without the watch label change: nothing happens until the interval is over."""
    stage.push("settings", "1.0.0")
    stage.create(SECRET, "values", stringData={"values.yaml": "motto: old"})
    values = [{"kind": "Secret", "name": "values"}]
    stage.want("settings", "1.0.0", patch={"valuesFrom": values, "interval": "30s"})
    stage.until(ready("1.0.0"))
    stage.patch({"stringData": {"values.yaml": "motto: new"}}, SECRET, "values")
    stage.pause(5)
    release = stage.find()
    assert release is not None
    assert conditions(release)["Ready"] == "True/InstallSucceeded", "nothing wakes helm-controller"
    stage.until(_is_upgraded)


def _is_upgraded(release: Manifest) -> bool:
    return conditions(release).get("Ready") == "True/UpgradeSucceeded" and is_ready(release)
