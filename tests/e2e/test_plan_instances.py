"""`plan` for ApplicationInstances, on what was given of a cluster (REC-6, REC-14)."""

import json
from pathlib import Path

import yaml

from purekube.apimachinery.manifest import canonical_json
from tests.e2e.test_plan_operations import decision, planned
from tests.support.instance_worlds import (
    CLUSTER,
    NAMESPACE,
    OLD_DIGEST,
    RELEASE,
    SOURCE,
    applied,
    attempted,
    decide,
    deployed,
    fetched,
    flux_condition,
    history,
    instance_manifest,
    written,
)
from vworkspace_app.commands.plan import PlanRequest, plan
from vworkspace_core.clusters.decision import cluster_manifest
from vworkspace_core.instances.context import InstanceObserved


def test_a_plan_of_an_instance_alone_says_that_its_release_was_not_given_REC_6(tmp_path: Path) -> None:
    """`kubectl get appinst NAME -o yaml | plan -` of a healthy instance: two applies, as if nothing were there."""
    first = instance_manifest()
    objects = applied(first)
    objects[RELEASE]["status"], objects[SOURCE]["status"] = deployed(), fetched()
    healthy = written(first, decide(first, InstanceObserved(NAMESPACE, objects)))

    alone = planned(tmp_path, healthy)
    command = "kubectl get appinst,helmreleases,ocirepositories,helmrepositories,configmaps -n org-myteam -o yaml"
    assert f"its HelmRelease was not given. Give everything: {command} | vworkspace-operator plan" in alone.err
    whole = planned(tmp_path, healthy, *objects.values())
    assert "HelmRelease was not given" not in whole.err
    assert not decision(whole).get("applies")


def test_the_summary_of_an_instance_alone_says_so_too_REC_6(tmp_path: Path) -> None:
    first = instance_manifest()
    observed = InstanceObserved(NAMESPACE, applied(first))
    file = tmp_path / "instance.yaml"
    file.write_bytes(canonical_json(written(first, decide(first, observed))))

    summary = plan(PlanRequest([str(file)])).summary
    assert summary.startswith("as if nothing were there yet: 2 applies (OCIRepository")


def test_what_an_upgrade_replaces_goes_afterwards_and_the_plan_says_so_REC_14(tmp_path: Path) -> None:
    first = instance_manifest()
    objects = applied(first)
    objects[RELEASE]["status"], objects[SOURCE]["status"] = deployed(), fetched()
    healthy = written(first, decide(first, InstanceObserved(NAMESPACE, objects)))
    chart = {**healthy["spec"]["chart"], "version": "6.7.0"}
    upgraded = {**healthy, "spec": {**healthy["spec"], "chart": chart}}

    decided = decision(planned(tmp_path, upgraded, *objects.values()))

    assert len(decided["apply"]) == 2
    assert "delete" not in decided
    assert [each["object"]["name"] for each in decided["then"]["delete"]] == [SOURCE.name]


def test_the_plan_of_a_degraded_instance_says_that_it_is_SEE_2(tmp_path: Path) -> None:
    """An instance whose upgrade had failed: `plan` printed `{}` and "nothing to do"."""
    first = instance_manifest()
    objects = applied(first)
    message = "Helm upgrade failed: boom"
    told = [flux_condition(kind, "False", "UpgradeFailed", message) for kind in ("Ready", "Released")]
    tries = [history(status="failed"), history("6.5.0", OLD_DIGEST)]
    objects[RELEASE]["status"] = attempted(told, upgradeFailures=1, failures=1, history=tries)
    objects[SOURCE]["status"] = fetched()
    degraded = written(first, decide(first, InstanceObserved(NAMESPACE, objects)))
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all(json.loads(canonical_json([degraded, NAMESPACE, *objects.values()]))))

    told_by = plan(PlanRequest([str(file)], now="2026-01-01T00:00:00Z"))
    assert told_by.text == "{}\n"
    assert told_by.summary.startswith(f"nothing to do; Degraded: HelmReleaseFailed: {message}")
    assert not told_by.is_blocked


def test_a_plan_keeps_to_the_policy_of_a_cluster_that_is_given_RES_3(tmp_path: Path) -> None:
    made = cluster_manifest(cluster_id=CLUSTER, endpoint="https://odoo.example")
    made["spec"]["policy"] = {"forbiddenVersions": [f"nextcloud@{instance_manifest()['spec']['chart']['version']}"]}
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all(json.loads(canonical_json([instance_manifest(), NAMESPACE, made]))))

    found = plan(PlanRequest([str(file)], wanted="ApplicationInstance/nextcloud-myteam"))

    assert "PolicyDenied" in found.summary
    assert found.is_blocked
