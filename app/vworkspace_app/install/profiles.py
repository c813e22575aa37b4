"""Profiles of an installation: what a cluster with several tenants sets, and what one of a single tenant leaves open.

A profile is nothing but settings of `run`; each can be said otherwise by `manifests --setting`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from vworkspace_app.settings.shapes import Setting, as_text
from vworkspace_app.settings.table import SETTINGS

NO_IMAGE: Final = "none.invalid/"
"""No image begins with it: nothing runs until somebody says what may."""


class Profile(StrEnum):
    """Whom the cluster belongs to."""

    MULTI_TENANT = "multi-tenant"
    SINGLE_TENANT = "single-tenant"


_STRICT: Final[Mapping[str, str]] = {"allowed_images": NO_IMAGE, "job_signatures": "required"}
_OPEN: Final[Mapping[str, str]] = {"service_account": "", "allow_unimpersonated_releases": "true"}
_OF_JOBS: Final = frozenset({"job_signatures"})
_BY_NAME: Final = {setting.name: setting for setting in SETTINGS}
_GIVEN_OTHERWISE: Final = frozenset(
    {"namespace", "agent", "cluster_id", "velero_namespace", "leader_elect", "shard", "listen", "webhook_listen"}
    | {"webhook_certificates", "kubeconfig", "token_file", "control_plane_url", "templates"}
)
"""What options of `manifests`, the pod or its Secret say."""

CHOSEN_SETTINGS: Final = tuple(setting for setting in SETTINGS if setting.name not in _GIVEN_OTHERWISE)
"""Settings of `run` that can be said to an installation."""


def profile_flags(profile: Profile, chosen: Mapping[str, str], *, agent: bool) -> list[str]:
    """Arguments of `run` by name: those of the profile, but for what was chosen, and what was chosen."""
    wanted = {**profile_settings(profile, agent=agent), **chosen}
    return [_flag(_BY_NAME[name], text) for name, text in sorted(wanted.items())]


def profile_settings(profile: Profile, *, agent: bool) -> dict[str, str]:
    """The settings of a profile by name, as text."""
    of_profile = _STRICT if profile is Profile.MULTI_TENANT else _OPEN
    return {name: text for name, text in of_profile.items() if agent or name not in _OF_JOBS}


def _flag(setting: Setting, text: str) -> str:
    value: Any = setting.shape.read(text)
    if isinstance(value, bool):
        return setting.flag if value else "--no-" + setting.flag.removeprefix("--")
    return f"{setting.flag}={as_text(value)}"


def read_settings(given: list[str]) -> dict[str, str]:
    """`log-level=debug` and the like, by the name in the table. Raises ValueError that says what would be right."""
    values: dict[str, str] = {}
    for setting in given:
        name, equals, text = setting.partition("=")
        key = name.strip().removeprefix("--").replace("-", "_")
        if not equals or key not in _BY_NAME or key in _GIVEN_OTHERWISE:
            known = ", ".join(setting.flag[2:] for setting in CHOSEN_SETTINGS)
            raise ValueError(f"{setting}: give NAME=VALUE with a setting of run, one of {known}")
        try:
            _BY_NAME[key].shape.read(text)
        except ValueError as error:
            raise ValueError(f"{setting}: {error}") from error
        values[key] = text
    return values
