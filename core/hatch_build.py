"""The hatch build hook of purekube's wheel, which adds two packages from other folders of the repository.

An editable installation imports them from those folders (`dev-mode-dirs`) instead, since copies would go stale.
"""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ELSEWHERE = {"../adapters/kube/purekube_http": "purekube_http", "../app/purekube_run": "purekube_run"}


class Elsewhere(BuildHookInterface):  # type: ignore[misc,type-arg,unused-ignore]
    """The hatch build hook that adds packages from other folders of the repository to purekube's wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the packages in `ELSEWHERE` to the wheel, by an entry in `build_data`, which hatch reads afterwards.

        `version` is the kind of the build: for "editable", an editable installation, nothing is added.
        """
        if version != "editable":
            build_data["force_include"].update(ELSEWHERE)
