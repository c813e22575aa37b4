"""The pods of Helm releases and Jobs, which the web page reads from the API server, at most every ten seconds.

Pods are many and change often, so no informer caches them: all other objects come from the caches. This runs on the
event loop that owns the caches.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

import anyio
import attrs

from purekube.apimachinery.errors import Forbidden, OperatorError
from purekube.apimachinery.manifest import Manifest, ObjectRef, ref_of
from purekube.apimachinery.resources import POD
from purekube.apimachinery.secret_material import safe
from purekube.ports import KubeApi
from vworkspace_core.overview.pods import PodSelection, pod_selections

KEPT_SECONDS: Final = 10.0
"""The seconds for which an answer is reused, however many browsers show it."""
_PATIENCE: Final = 2.0
"""The seconds after which the page is rendered without pods."""
_MOST_ANSWERS: Final = 64
_MOST_PODS: Final = 200


@attrs.frozen
class _Answer:
    at: float
    pods: Mapping[ObjectRef, Manifest] = attrs.field(factory=dict)
    problem: str = ""


class PodReader:
    """A reader of pods from the API server, with the operator's rights. It caches answers; `monotonic` is its clock.

    A read is given up after `patience` seconds.
    """

    def __init__(self, api: KubeApi, monotonic: Callable[[], float], patience: float = _PATIENCE) -> None:
        self._api = api
        self._patience = patience
        self._monotonic = monotonic
        self._answers = OrderedDict[PodSelection, _Answer]()
        self._turn = anyio.Lock()

    async def below(self, objects: Mapping[ObjectRef, Manifest]) -> tuple[dict[ObjectRef, Manifest], str]:
        """Return the pods of the releases and Jobs among `objects`, and the reason why pods are missing ("" if none
        are).
        """
        found, problems = dict[ObjectRef, Manifest](), dict[str, None]()
        for selection in pod_selections(objects):
            answer = await self._answer(selection)
            found |= answer.pods
            problems |= {answer.problem: None} if answer.problem else {}
        return found, "; ".join(problems)

    async def _answer(self, selection: PodSelection) -> _Answer:
        async with self._turn:
            known = self._answers.get(selection)
            if known is None or self._monotonic() - known.at >= KEPT_SECONDS:
                self._answers[selection] = known = await self._ask(selection)
                while len(self._answers) > _MOST_ANSWERS:
                    self._answers.popitem(last=False)
            self._answers.move_to_end(selection)
            return known

    async def _ask(self, selection: PodSelection) -> _Answer:
        where = selection.namespace
        try:
            with anyio.fail_after(self._patience):
                page = await self._api.list(POD, namespace=where, label_selector=selection.selector, limit=_MOST_PODS)
        except Forbidden:
            return _Answer(self._monotonic(), problem=f"the operator may not list pods in namespace {where}")
        except TimeoutError:
            return _Answer(self._monotonic(), problem="the API server has not answered")
        except OperatorError as error:
            return _Answer(self._monotonic(), problem=safe(error.message))
        pods = {ref_of(pod, POD): pod for pod in page.items}
        return _Answer(self._monotonic(), pods, "" if pods else f"no pod has the label {selection.selector}")
