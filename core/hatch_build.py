"""The hatch build hook of purekube's wheel, which adds two packages from other folders of the repository.

An editable installation imports them from those folders (`dev-mode-dirs`) instead, since copies would go stale.
"""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ELSEWHERE = {"../adapters/kube/purekube_http": "purekube_http", "../app/purekube_run": "purekube_run"}


class Elsewhere(BuildHookInterface):  # type: ignore[misc,type-arg,unused-ignore]
    """The hatch build hook that adds the packages of other folders to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the packages of the other folders to the wheel, through `build_data`. Add nothing for an editable
        installation.
        """
        if version != "editable":
            build_data["force_include"].update(ELSEWHERE)
