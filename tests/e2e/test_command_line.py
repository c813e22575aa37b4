"""The offline commands as a user meets them: `plan` and `manifests`, their output, their errors, their exit status.

After a wanted change of what is planned: vworkspace-operator plan tests/e2e/golden/instance.yaml \
--now 2026-06-01T12:00:00Z > tests/e2e/golden/plan.yaml
"""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import NAMESPACE
from tests.support.commands import one_line, run
from tests.support.e2e_world import INSTANCE, NS, RELEASE, SOURCE, World
from tests.support.furnished import furnish
from tests.support.servers import IN_PROCESS
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

GOLDEN = Path(__file__).parent / "golden"
FILE = GOLDEN / "instance.yaml"
PLACE = "org-myteam"
"""The namespace of the file's instance."""
NOW = ("--now", "2026-06-01T12:00:00Z")


def instance(**spec: Any) -> dict[str, Any]:
    """The instance of the file, with other fields in its spec."""
    manifest: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return {**manifest, "spec": {**manifest["spec"], **spec}}


def written(path: Path, *documents: Any) -> Path:
    """A file with these documents."""
    path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return path


def planned(*words: str | Path, stdin: str = "") -> Any:
    """The decision that `plan` prints, as data."""
    ended = run("plan", *NOW, "-o", "json", *words, stdin=stdin)
    assert (ended.status, ended.problems) == (0, []), ended.err
    return json.loads(ended.out)


# --- plan -------------------------------------------------------------------------------------------------------------


def test_plan_prints_the_decision_as_it_always_did() -> None:
    ended = run("plan", FILE, *NOW)

    assert (ended.status, ended.out) == (0, (GOLDEN / "plan.yaml").read_text(encoding="utf-8"))
    note, summary = ended.err.splitlines()
    assert note == "note: no Namespace was given: org-myteam is taken to be managed"
    assert summary.startswith("plan: 2 applies (OCIRepository nextcloud-myteam")
    assert summary.endswith("), 0 deletes; adds the finalizer and writes the status")


@pytest.mark.slow
def test_plan_prints_the_same_bytes_whatever_the_hash_seed() -> None:
    outputs = {run("plan", FILE, *NOW, PYTHONHASHSEED=seed).out for seed in ("0", "1", "4711")}

    assert outputs == {(GOLDEN / "plan.yaml").read_text(encoding="utf-8")}


@pytest.mark.slow
def test_plan_says_the_same_in_json_and_from_standard_input() -> None:
    golden = yaml.safe_load((GOLDEN / "plan.yaml").read_text(encoding="utf-8"))
    text = FILE.read_text(encoding="utf-8")

    assert planned(FILE) == golden
    assert planned("-", stdin=text) == golden
    assert run("plan", "-", *NOW, stdin=text).out == (GOLDEN / "plan.yaml").read_text(encoding="utf-8")


def gate(**labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLACE, "labels": labels}}


def listed(*items: Any) -> dict[str, Any]:
    """As `kubectl get -o yaml` prints several objects."""
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": list(items)}


@pytest.mark.slow
def test_plan_takes_lists_and_many_documents_in_any_order_and_number_of_files(tmp_path: Path) -> None:
    ungated = gate()
    ways: Iterable[tuple[Path, ...]] = [
        (written(tmp_path / "1.yaml", instance(), ungated),),
        (written(tmp_path / "2.yaml", ungated, None, instance()),),
        (written(tmp_path / "3.yaml", listed(ungated, instance())),),
        (written(tmp_path / "4.yaml", listed(), listed(instance())), written(tmp_path / "5.yaml", ungated)),
        (FILE, written(tmp_path / "6.yaml", {**listed(ungated), "kind": "NamespaceList"})),
    ]

    decisions = [planned(*files) for files in ways]

    assert all(decision == decisions[0] for decision in decisions)
    assert "apply" not in decisions[0]
    assert {condition["type"]: condition["reason"] for condition in decisions[0]["status"]["conditions"]}[
        "Blocked"
    ] == "NamespaceNotGated"


@pytest.mark.slow
def test_plan_of_a_settled_instance_is_nothing_to_do(tmp_path: Path) -> None:
    found: list[Any] = []

    async def story(world: World) -> None:
        await world.ready()
        namespace = ObjectRef(NAMESPACE, None, NS)
        found.extend(world.get(ref) for ref in (INSTANCE, RELEASE, SOURCE, namespace))

    IN_PROCESS.run(story)
    file = written(tmp_path / "cluster.yaml", listed(*found))

    ended = run("plan", file)

    assert (ended.status, ended.out, ended.err) == (0, "{}\n", "plan: nothing to do\n")
    same = run("plan", file, "-o", "diff", "--exit-code")
    assert (same.status, same.out, same.err) == (0, "", "plan: nothing to do\n")

    desired = {**found[0], "spec": {**found[0]["spec"], "chart": {**found[0]["spec"]["chart"], "version": "6.8.0"}}}
    desired["metadata"] = {**desired["metadata"], "generation": desired["metadata"]["generation"] + 1}
    ended = run("plan", written(tmp_path / "next.yaml", listed(desired, *found[1:])), "-o", "diff", "--exit-code")
    assert ended.status == 1, ended.err
    assert "+    tag: 6.8.0" in ended.out
    assert "managedFields" not in ended.out
    assert not any(line.startswith("\x1b") for line in ended.out.splitlines()), "colours are for terminals"


@pytest.mark.parametrize("name", ["HelmRelease", "helmreleases", "helmreleases.helm.toolkit.fluxcd.io"])
def test_plan_without_fluxs_definitions_is_blocked_REC_12(name: str) -> None:
    decision = planned(FILE, "--missing", name)

    (blocked,) = (condition for condition in decision["status"]["conditions"] if condition["type"] == "Blocked")
    assert (blocked["status"], blocked["reason"]) == ("True", "MissingDependencies")
    assert "helmreleases.helm.toolkit.fluxcd.io" in blocked["message"]
    assert "apply" not in decision


def test_plan_decides_at_the_time_it_is_told() -> None:
    assert planned(FILE)["status"]["lastReconcileTime"] == "2026-06-01T12:00:00Z"
    ended = run("plan", FILE, "-o", "json")
    moment = datetime.fromisoformat(json.loads(ended.out)["status"]["lastReconcileTime"])
    assert abs((datetime.now(UTC) - moment).total_seconds()) < 300


def test_plan_notes_what_the_operator_would_ignore_and_what_decides_nothing(tmp_path: Path) -> None:
    stranger = {**instance(), "metadata": {"name": "a", "namespace": PLACE}}
    other = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "nextcloud", "namespace": PLACE},
    }
    file = written(tmp_path / "a.yaml", stranger, other, gate(**{"managed-by": "vworkspace"}))

    ended = run("plan", file, *NOW)

    assert ended.status == 0
    assert ended.err.splitlines() == [
        "note: Ingress nextcloud is of no kind that decides anything",
        "note: the operator ignores this object: it lacks the label app.vworkspace.io/managed-by=control-plane",
        ended.err.splitlines()[-1],
    ]
    assert ended.err.splitlines()[-1].startswith("plan: ")


def test_plan_tells_an_unknown_field_with_its_path(tmp_path: Path) -> None:
    file = written(tmp_path / "a.yaml", instance(chrat={"version": "6.6.0"}), gate(**{"managed-by": "vworkspace"}))

    ended = run("plan", file, *NOW)

    assert ended.status == 0
    assert ended.err.splitlines()[0] == (
        "note: spec.chrat: unknown field; an API server drops it, or refuses the object"
    )


@pytest.mark.slow
def test_plan_says_in_a_line_and_by_its_status_what_is_in_the_way(tmp_path: Path) -> None:
    file = written(tmp_path / "a.yaml", instance(), gate())

    ended, judged = run("plan", file, *NOW), run("plan", file, *NOW, "--exit-code")

    assert (ended.status, judged.status) == (0, 2)
    (summary,) = ended.err.splitlines()
    assert summary.startswith("plan: no apply, no delete; writes the status; Blocked: NamespaceNotGated: ")
    assert run("plan", tmp_path / "none.yaml", "--exit-code").status == 2
    assert run("plan", FILE, *NOW, "--exit-code").status == 1


# --- what plan refuses ------------------------------------------------------------------------------------------------

BROKEN = {
    "a: b\n  c: [\n": ":2: not valid YAML: mapping values are not allowed",
    "kind: Pod\nspec:\n  a: 1\n  a: 2\n": ":4: not valid YAML: the key 'a' is there twice",
    "a: 1\nb: [1, 2\n": ":3: not valid YAML: ",
    "a: &x 1\nb: *x\n": ":2: not valid YAML: the alias *x stands for a value given elsewhere",
    "a: !!python/object/apply:os.system [id]\n": ":1: not valid YAML: could not determine a constructor",
    "a: \x01\n": ":1: not valid YAML: ",
    "[" * 2000: ":1: not valid YAML: it is nested too deeply",
    "apiVersion: v1\nkind: Namespace\n---\njust text\n": ":4: not a Kubernetes object: apiVersion and kind are missing",
    "- apiVersion: v1\n  kind: Pod\n": ":1: not a Kubernetes object: apiVersion and kind are missing",
    "apiVersion: v1\nkind: List\nitems: [5]\n": ":1: items[0] is not a Kubernetes object",
}


@pytest.mark.slow
@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_plan_on_broken_yaml_says_file_line_and_what_is_wrong(text: str, tmp_path: Path) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text(text, encoding="utf-8")

    assert one_line(run("plan", FILE, file), 1).startswith(f"{file}{BROKEN[text]}")


def test_plan_names_standard_input_too() -> None:
    assert one_line(run("plan", "-", stdin="a: [\n"), 1).startswith("standard input:2: not valid YAML: ")


@pytest.mark.slow
def test_plan_on_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"name: caf\xe9\n")

    assert one_line(run("plan", tmp_path / "none.yaml"), 1) == (
        f"{tmp_path / 'none.yaml'}: cannot be read: No such file or directory"
    )
    assert one_line(run("plan", tmp_path), 1) == f"{tmp_path}: cannot be read: Is a directory"
    assert one_line(run("plan", tmp_path / "latin"), 1).startswith(f"{tmp_path / 'latin'}: is not UTF-8 text")


def test_plan_on_an_instance_that_cannot_be_read_lists_every_problem_with_its_path(tmp_path: Path) -> None:
    file = written(tmp_path / "a.yaml", instance(suspend="yes", chart={"sourceType": "oci", "version": 6}))

    told = one_line(run("plan", file), 1)

    for path in ("spec.suspend", "spec.chart.version", "spec.chart.name", "spec.chart.url"):
        assert f"{path}: " in told


def test_plan_needs_something_to_plan(tmp_path: Path) -> None:
    told = one_line(run("plan", written(tmp_path / "a.yaml", gate())), 1)

    assert told == "there is nothing to plan: give an ApplicationInstance or an Operation"


USAGE = {
    (): "give at least one FILE",
    (FILE, "--bogus"): "unknown option: --bogus",
    (FILE, "-o", "xml"): "--output xml: give one of yaml, json, diff",
    (FILE, "--now", "yesterday"): "--now yesterday: not an RFC 3339 time",
    (FILE, "--missing", "Toaster"): "--missing Toaster: not a kind that the operator knows",
    ("none.yaml", "--missing", "Toaster"): "--missing Toaster",
}


@pytest.mark.slow
@pytest.mark.parametrize("words", USAGE, ids=lambda words: " ".join(Path(word).name for word in words) or "nothing")
def test_plan_used_wrongly_says_so_in_one_line_with_status_2(words: tuple[str, ...]) -> None:
    assert one_line(run("plan", *words), 2).startswith(USAGE[words])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["register"], "--control-plane-url is missing (see vworkspace-operator register --help)"),
        (["cluster", "--listen"], "--listen: a value is missing (see vworkspace-operator cluster --help)"),
        (["retry"], "NAME is missing (see vworkspace-operator retry --help)"),
        (["box", "init"], "KIND is missing (see vworkspace-operator box init --help)"),
        (
            ["init", "reconciler", "x"],
            "--kind or --from-crd is missing (see vworkspace-operator init reconciler --help)",
        ),
        (["manifests", "extra"], "unexpected argument: extra (see vworkspace-operator manifests --help)"),
        (["manifests", "one", "two"], "unexpected arguments: one two (see vworkspace-operator manifests --help)"),
    ],
)
def test_misuse_is_told_in_the_words_of_the_command_line(words: list[str], told: str) -> None:
    assert one_line(run(*words), 2) == told


@pytest.mark.slow
def test_output_that_cannot_be_encoded_is_escaped(tmp_path: Path) -> None:
    """A terminal that knows only ASCII is no reason to end with a traceback."""
    file = written(tmp_path / "instance.yaml", instance(values={"source": "inline", "inline": {"a": "ü😀"}}))
    ended = run("plan", file, *NOW, "-o", "json", cold=True, PYTHONIOENCODING="ascii", PYTHONUTF8="0")

    assert ended.status == 0, ended.err
    assert ended.out.isascii()
    assert json.loads(ended.out)["apply"][-1]["manifest"]["spec"]["values"]["a"] == "ü😀"


@pytest.mark.parametrize("words", [["bogus"], ["--bogus"], ["manifests", "--crds-only", "extra"]])
def test_usage_errors_have_status_2_and_one_line(words: list[str]) -> None:
    assert one_line(run(*words), 2)


def test_help_and_version_are_there() -> None:
    assert run("--version").out == "0.1.0\n"
    ended = run("--help")
    assert ended.status == 0
    for command in ("run", "demo", "plan", "cluster", "control-plane", "manifests"):
        assert command in ended.out


# --- manifests --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_printed_crds_are_ours_and_an_api_server_takes_them_and_serves_their_kinds() -> None:
    ended = run("manifests", "--crds-only")

    assert (ended.status, ended.err) == (0, "")
    crds = list(yaml.safe_load_all(ended.out))
    assert crds == crd_manifests()
    kube = InProcessKube(ApiServer(now=lambda: datetime.now(UTC)))
    furnish(kube, crds)
    run_sync(kube.create(gate(), kind=NAMESPACE, field_manager="kubectl"))
    stored = run_sync(kube.create(instance(), kind=APPLICATION_INSTANCE, field_manager="kubectl"))
    assert stored["spec"]["mode"] == "managed", "the schema's default"


def test_the_printed_crds_come_as_json_too() -> None:
    text, decoder = run("manifests", "--crds-only", "-o", "json").out, json.JSONDecoder()
    found: list[Any] = []
    while text := text.lstrip():
        crd, end = decoder.raw_decode(text)
        found, text = [*found, crd], text[end:]

    assert found == crd_manifests()
