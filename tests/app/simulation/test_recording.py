"""`simulate record`: a cluster as a file without secrets, decided again, and used as a workload (SIM-3, RES-7)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from kubelab.cluster.definitions import install
from kubelab.flux.crds import flux_crds
from kubelab.http.serving import kubeconfig
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, EVENT, HELM_RELEASE, NAMESPACE, SECRET
from purekube_http import KubeApiClient, load_config
from purekube_run.process.command_line import CommandError
from purekube_run.simulation.replica import Replica
from purekube_run.simulation.script import Act, SimulationScript
from tests.app.simulation.test_simulation import LIFE
from tests.support.cluster_choice import real_server
from tests.support.definitions import until_served
from tests.support.server_thread import served, wall_clock
from vworkspace_app.commands.simulate.cluster_recording import acts_of, record
from vworkspace_app.commands.simulate.replay import ReplayRequest, replay
from vworkspace_app.simulation.acts import Do
from vworkspace_app.simulation.masking import Masker
from vworkspace_app.simulation.operator_world import PASSWORD, UNHURRIED
from vworkspace_app.simulation.recording import ClusterRecorder, counts_text, is_recording, read_recording
from vworkspace_app.simulation.recording_replay import ReplayedRecording, _event_text, replayed
from vworkspace_app.simulation.run import perform
from vworkspace_app.simulation.workload import instance
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.instances.context import Settings

SETTINGS = Settings("simulated-1", interval=UNHURRIED.interval)
ACTS = (
    *LIFE,
    Act(30.0, Do.CREATE, "app-1"),
    Act(90.0, Do.VALUES, "app-1", 4711),
    Act(100.0, Do.SUSPEND, "app-1"),
    Act(110.0, Do.RESUME, "app-1"),
    Act(120.0, Do.BACKUP, "app-1", 1),
    Act(40.0, Do.JOB, "job-2"),
    Act(150.0, Do.DELETE, "app-0"),
)
SCRIPT = SimulationScript(7, 1, 240.0, tuple(sorted(ACTS)))


class RecorderProcess(Replica):
    """The recorder as one more process of a world: it sees what the operator sees, under the same clock."""

    def __init__(self, world: Any, lines: list[bytes]) -> None:
        super().__init__(world, "recorder", user="system:admin")
        self.lines = lines

    async def main(self, machine: Any) -> None:
        """Record for four minutes."""
        await ClusterRecorder(self.connect(), self.clock, self.lines.append).record(235.0)
        await anyio.sleep_forever()


def recorded(folder: Path, script: SimulationScript = SCRIPT) -> Path:
    """The recording of a run."""
    lines: list[bytes] = []
    perform(script, lambda world, laws: world.add(RecorderProcess(world, lines)))
    path = folder / "day.jsonl"
    path.write_bytes(b"".join(lines))
    return path


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("recording"))


@pytest.mark.slow
def test_a_recording_has_the_objects_and_no_secret(recording: Path) -> None:
    """SIM-3, RES-7: neither Secrets nor values, tokens or digests of values."""
    assert is_recording(recording)
    content = recording.read_text()
    for secret in (PASSWORD, "tok-", "4711", '"Secret"', "managedFields"):
        assert secret not in content
    kinds = {change.ref.kind.kind for change in read_recording(recording).changes}
    assert {"ApplicationInstance", "HelmRelease", "OCIRepository", "Namespace", "Event", "Cluster"} <= kinds
    for line in content.splitlines()[1:]:
        for field in ("configDigest", "lastAttemptedConfigDigest"):
            assert f'"{field}":"sha256' not in line


@pytest.mark.slow
def test_the_same_version_decides_what_was_recorded(recording: Path) -> None:
    """SIM-3: masked values are still equal where they were, so nothing differs."""
    outcome = replayed(read_recording(recording), SETTINGS)
    assert outcome.differences == ()
    assert outcome.decided > 20
    rows = {moment.decision.row for moment in outcome.history.moments if moment.decision}
    assert {"REC-5 row 1 Pending", "REC-5 row 5 Ready", "REC-5 row 2 Suspended", "REC-10 nothing is left"} <= rows


def differing(outcome: ReplayedRecording) -> dict[str, str]:
    """The first difference of each object."""
    return {difference.ref.name: str(difference) for difference in reversed(outcome.differences)}


@pytest.mark.slow
def test_another_setting_shows_as_a_difference(recording: Path) -> None:
    """SIM-3: this operator would write another interval into every source and release."""
    found = differing(replayed(read_recording(recording), attrs.evolve(SETTINGS, interval="7m")))
    assert set(found) == {"app-0", "app-1", "job-2"}
    assert "applies HelmRelease team-a/app-0" in found["app-0"]


@pytest.mark.slow
def test_a_recording_is_replayed_at_any_moment(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SIM-3: with the settings of the recorded operator nothing differs; with the default interval everything does."""
    assert replay(ReplayRequest(recording, at=60.0, settings=UNHURRIED)) == 0
    printed = capsys.readouterr().out
    assert "ApplicationInstance team-a/app-0" in printed
    assert PASSWORD not in printed
    assert replay(ReplayRequest(recording, at=60.0)) == 1
    assert "differs  ApplicationInstance team-a/app-0 from 0:00:2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("regarding", "about"),
    [
        ({"kind": "Cluster", "name": "here"}, "Cluster here"),
        ({"kind": "ApplicationInstance", "namespace": "team", "name": "shop"}, "ApplicationInstance team/shop"),
    ],
)
def test_an_event_is_told_with_the_namespace_of_its_object_if_that_has_one(regarding: Any, about: str) -> None:
    """SIM-3."""
    event = {"type": "Normal", "reason": "Connected", "regarding": regarding, "note": "it answers"}
    assert _event_text(event) == f"Normal Connected about {about}: it answers"


def test_a_recording_counts_the_states_of_objects_and_the_objects() -> None:
    """SIM-3."""
    numbers = ((HELM_RELEASE, "a", 3), (HELM_RELEASE, "b", 1), (APPLICATION_INSTANCE, "a", 2))
    counts = {ObjectRef(kind, "team", name): number for kind, name, number in numbers}
    assert counts_text(counts) == "2 states of 1 ApplicationInstance, 4 states of 2 HelmRelease"
    assert counts_text({}) == "nothing"


@pytest.mark.slow
def test_the_acts_of_people_and_jobs_are_taken_over_as_a_workload(recording: Path) -> None:
    """SIM-1: who did what, in which order, and when."""
    acts = acts_of(recording, 600.0)
    assert [(act.name, act.do) for act in acts] == [
        ("app-0", Do.CREATE),
        ("app-1", Do.CREATE),
        ("job-2", Do.JOB),
        ("app-0", Do.UPGRADE),
        ("app-1", Do.VALUES),
        ("app-1", Do.SUSPEND),
        ("app-1", Do.RESUME),
        ("app-1", Do.BACKUP),
        ("app-0", Do.DELETE),
    ]
    assert [round(act.at) for act in acts][:2] == [20, 30]
    assert perform(SimulationScript(1, 1, 240.0, acts)).broken == ()


@pytest.mark.slow
def test_a_workload_that_does_nothing_is_refused(recording: Path) -> None:
    """SIM-1."""
    with pytest.raises(CommandError, match="nobody does anything in its first 5 s"):
        acts_of(recording, 5.0)


# --- secrets ---------------------------------------------------------------------------------------------------------

TOKENS = st.text(alphabet="abcdefghijkmnpqrstuvwxyz23456789", min_size=10, max_size=16).map("Zq{}".format)
VALUES = st.recursive(
    TOKENS | st.integers(10**9, 10**12),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from("abcdefgh"), below, max_size=3),
    max_leaves=12,
)


def leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from leaves(item)
    else:
        yield str(value)


@given(st.dictionaries(st.sampled_from(("password", "note", "env", "size")), VALUES, min_size=1))
@example({"env": [{"name": "Zqvariable", "value": "Zqsecretsecret"}]})
def test_no_drawn_value_is_in_what_is_recorded(values: dict[str, Any]) -> None:
    """RES-7: wherever values are, and where messages quote them; equal values stay equal, others differ."""
    masker = Masker(b"key")
    source = instance("app-0", "1.0.0")
    source["spec"]["values"]["inline"] = values
    release = {**HELM_RELEASE.manifest("app-0", "team-a"), "spec": {"values": values}}
    quoted = "; ".join(leaves(values))
    event = {**EVENT.manifest("e", "team-a"), "note": f"values: {quoted}"}
    status = {"status": {"conditions": [{"type": "Ready", "message": f"bad value {quoted}"}]}}
    operation = {"kind": "Operation", "spec": {"parameters": {"valuesPatch": values}}}
    objects = [masker.masked(each) for each in (source, release, {**event, **status}, operation)]
    text = json.dumps(objects)
    for leaf in leaves(values):
        assert leaf not in text
    masked = [get_path(objects[0], "spec", "values", "inline"), get_path(objects[1], "spec", "values")]
    assert masked[0] == masked[1]
    other = masker.masked({"spec": {"values": {**values, "note": "Zqanother1"}}})
    assert get_path(other, "spec", "values") != masked[1]


# --- over HTTP -------------------------------------------------------------------------------------------------------


async def busy(config: Path) -> None:
    """Make an instance, then change it, while the recorder watches."""
    async with KubeApiClient(load_config(config)) as api:
        namespace = {**NAMESPACE.manifest("team-a")}
        await api.apply(namespace, kind=NAMESPACE, field_manager="kubectl", force=True)
        secret = {**SECRET.manifest("hidden", "team-a"), "stringData": {"key": "Zqhidden1234"}}
        await api.apply(secret, kind=SECRET, field_manager="kubectl", force=True)
        for version in ("1.0.0", "1.1.0"):
            await api.apply(instance("app-0", version), kind=APPLICATION_INSTANCE, field_manager="kubectl", force=True)
            await anyio.sleep(1.0)
        await api.delete(ObjectRef(APPLICATION_INSTANCE, "team-a", "app-0"))


def record_over(config: Path, out: Path) -> None:
    """Record for four seconds with the command, while an instance comes, changes and goes."""

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, record, config, 5.0, out, "simulated-1")
            await anyio.sleep(1.5)
            await busy(config)

    anyio.run(main)


def check_recorded(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    types = [json.loads(line) for line in out.read_text().splitlines()[1:]]
    own = [line["type"] for line in types if line.get("object", {}).get("kind") == "ApplicationInstance"]
    assert own == ["added", "updated", "deleted"]
    for secret in (PASSWORD, "Zqhidden"):
        assert secret not in out.read_text()
    told = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in told] == [str(out), f"vworkspace-operator simulate replay {out}"]
    assert "3 states of 1 ApplicationInstance" in told[0]
    replay(ReplayRequest(out))
    printed = capsys.readouterr().out
    assert "decides ApplicationInstance team-a/app-0: [" in printed
    assert PASSWORD not in printed


@pytest.mark.slow
def test_a_cluster_is_recorded_over_http(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SIM-3: by lists and watches, as the operator reads it."""
    server = ApiServer(now=wall_clock)
    install(server, (*crd_manifests(), *flux_crds()))
    config = tmp_path / "config"
    with served(server) as url:
        config.write_text(yaml.safe_dump(kubeconfig(url)))
        record_over(config, tmp_path / "day.jsonl")
    check_recorded(tmp_path / "day.jsonl", capsys)


@pytest.mark.slow
def test_a_real_api_server_is_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SIM-3: kube-apiserver of `KUBEBUILDER_ASSETS`."""
    config = tmp_path / "config"
    config.write_text(yaml.safe_dump(real_server().kubeconfig()))

    async def prepare() -> None:
        async with KubeApiClient(load_config(config)) as api:
            for definition in (*crd_manifests(), *flux_crds()):
                await api.apply(definition, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="test", force=True)
                await until_served(definition, api)

    anyio.run(prepare)
    record_over(config, tmp_path / "day.jsonl")
    check_recorded(tmp_path / "day.jsonl", capsys)


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    """SIM-3."""
    with pytest.raises(CommandError, match="cannot be written") as caught:
        record(None, 1.0, tmp_path / "absent" / "x")
    assert caught.value.status == 2


def test_an_earlier_recording_stays_if_the_cluster_does_not_answer(tmp_path: Path) -> None:
    """SIM-3."""
    out, config = tmp_path / "day.jsonl", tmp_path / "config"
    out.write_text("earlier")
    config.write_text(yaml.safe_dump(kubeconfig("http://127.0.0.1:9")))
    with pytest.raises(CommandError):
        record(config, 60.0, out)
    assert out.read_text() == "earlier"
