"""`simulate --box` and `--controllers`: correct ones hold every law, seeded defects are found and shrunk (SIM-5)."""

import shutil
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from purekube_run.process.command_line import CommandError
from purekube_run.simulation.extensions.extension_world import Deed
from purekube_run.simulation.script import Act, Incident, SimulationScript
from purekube_run.simulation.world_faults import WORLD_FAULTS
from vworkspace_app.commands.simulate.seeds import SimulateRequest, simulate
from vworkspace_app.simulation.run import drawn, perform, read_script

BOXES = Path(__file__).parents[3] / "examples" / "boxes"
MOST_STEPS = 10
NOTES_CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: notes.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: notes, singular: note, kind: Note, listKind: NoteList}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            spec:
              type: object
              required: [text]
              properties: {text: {type: string, minLength: 1}}
            status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
RESTLESS_BOX = """
apiVersion: box.vworkspace.io/v1alpha1
kind: OperatorBox
metadata: {name: notes}
spec:
  crd: notes-crd.yaml
  resources:
    - id: config
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "${self.metadata.name}"}
        data: {text: "${self.spec.text}", version: "${self.metadata.resourceVersion}"}
  status:
    fields:
      stored: ${config.metadata.resourceVersion}
"""
"""A box whose ConfigMap has its owner's version, and whose status has the ConfigMap's: each write needs another one."""
CARELESS_RECONCILER = '''
import attrs
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.ports import KubeApi
from purekube.reconcilers import Reconciler, Result, resource


@attrs.frozen
class NoteSpec:
    text: str = ""


@attrs.frozen
class NoteStatus:
    stored: bool = False


NOTE = resource("example.com", "v1", "Note", NoteSpec, NoteStatus)


@attrs.frozen
class Notes(Reconciler):
    """Deletes by name, so that a ConfigMap of another owner may go."""

    api: KubeApi
    kind = NOTE
    owns = (CONFIG_MAP,)

    async def reconcile(self, request):
        note = request.object
        ref = ObjectRef(CONFIG_MAP, note.metadata.namespace, note.metadata.name)
        if request.deleting:
            await self.api.delete(ref)
            return Result()
        manifest = {**CONFIG_MAP.manifest(ref.name, ref.namespace), "data": {"text": note.spec.text}}
        await self.api.apply(manifest, kind=CONFIG_MAP, field_manager="notes")
        return Result(NoteStatus(stored=True))
'''


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def saved(folder: Path, clause: str) -> SimulationScript:
    (path,) = folder.glob(f"broken-{clause}-*.json")
    return read_script(path)


@pytest.mark.slow
def test_an_example_box_holds_every_law_through_faults() -> None:
    """SIM-5: people create, edit, annotate and delete, and delete and annotate what the box made."""
    named = SimulationScript(4, 2, 600.0, boxes=(str(BOXES / "webapp.yaml"),))
    outcome = perform(drawn(named, 2, tuple(WORLD_FAULTS)))
    assert outcome.broken == ()
    assert outcome.acts > 0
    assert {"RUN-4", "RUN-2", "REC-7", "REC-8", "REC-9"} <= set(outcome.checks)
    assert outcome.checks["REC-6"] == outcome.checks["REC-1"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["webapp", "registry", "chart"])
def test_example_boxes_hold_every_law_through_all_faults(name: str) -> None:
    """SIM-5, SIM-2."""
    for seed in range(10, 16):
        named = SimulationScript(seed, 2, 1200.0, boxes=(str(BOXES / f"{name}.yaml"),))
        assert perform(drawn(named, 3, tuple(WORLD_FAULTS))).broken == ()


@pytest.mark.slow
def test_every_act_on_a_box_has_an_effect() -> None:
    """SIM-5: no act is named that does nothing."""
    acts = [Act(10.0 + 30 * number, do, "object-0", number) for number, do in enumerate(Deed) if do != Deed.DELETE]
    script = SimulationScript(1, 1, 240.0, boxes=(str(BOXES / "webapp.yaml"),))
    steps: list[Act | Incident] = [*acts, Act(200.0, Deed.DELETE, "object-0", 9), Incident(95.0, "replica-killed")]
    outcome = perform(script.with_steps(steps))
    assert outcome.broken == ()
    assert outcome.acts == len(Deed)
    assert outcome.happened["replica-killed"] == 1


@pytest.mark.slow
def test_a_run_of_a_box_is_a_function_of_its_seed() -> None:
    """SIM-3."""
    named = SimulationScript(7, 2, 120.0, boxes=(str(BOXES / "webapp.yaml"),))
    script = drawn(named, 1, ("watch-cut", "api-error"))
    assert perform(script).digest == perform(script).digest


@pytest.mark.slow
def test_a_box_that_never_rests_is_found_and_shrunk(here: Path) -> None:
    """SIM-5, REC-6: a seeded defect in a box."""
    (here / "notes.yaml").write_text(RESTLESS_BOX)
    (here / "notes-crd.yaml").write_text(NOTES_CRD)
    request = SimulateRequest(1, 600.0, 2, 2, tuple(WORLD_FAULTS), 3, boxes=("notes.yaml",))
    assert simulate(request) == 1
    script = saved(here, "REC-6")
    assert 0 < len(script.steps) <= MOST_STEPS
    assert script.boxes == ("notes.yaml",)
    assert [(law.clause, law.law) for law in perform(script).broken] == [("REC-6", "nothing is written at rest")]


@pytest.mark.slow
def test_a_reconciler_that_deletes_by_name_is_found_and_shrunk(here: Path) -> None:
    """SIM-5, REC-10: a seeded defect in a reconciler, which is named by its module."""
    (here / "careless_notes.py").write_text(dedent(CARELESS_RECONCILER))
    request = SimulateRequest(1, 600.0, 3, 2, tuple(WORLD_FAULTS), 1, controllers=("careless_notes",))
    assert simulate(request) == 1
    script = saved(here, "REC-10")
    assert 0 < len(script.steps) <= MOST_STEPS
    assert script.controllers == ("careless_notes",)
    assert [(law.clause, law.law) for law in perform(script).broken] == [("REC-10", "a delete names the uid")]
    sys.modules.pop("careless_notes")


def test_a_module_without_controllers_is_refused_with_its_name(here: Path) -> None:
    """SIM-5."""
    (here / "nothing_here.py").write_text("x = 1\n")
    with pytest.raises(CommandError, match="the module nothing_here has no controller"):
        drawn(SimulationScript(1, 1, 60.0, controllers=("nothing_here",)), 1, ())
    shutil.rmtree(here / "__pycache__", ignore_errors=True)
    sys.modules.pop("nothing_here")


def test_a_box_that_cannot_be_read_is_refused(here: Path) -> None:
    """SIM-5."""
    with pytest.raises(CommandError, match=r"absent\.yaml"):
        drawn(SimulationScript(1, 1, 60.0, boxes=("absent.yaml",)), 1, ())
