"""The profiles of an installation: strict settings for a cluster with several tenants, open ones for one tenant.

A profile only sets some settings of `run`; `manifests --setting` overrides each of them.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from purekube_run.process.command_line import USAGE, CommandError
from vworkspace_app.settings.setting_types import Setting, as_text
from vworkspace_app.settings.table import SETTINGS

NO_IMAGE: Final = "none.invalid/"
"""An image prefix that matches no image, so that no Job of an Operation runs until an administrator allows images."""


class Profile(StrEnum):
    """The profiles of an installation, each with its own default settings of the command `run`.

    MULTI_TENANT is strict, for a cluster with several tenants; SINGLE_TENANT is open, for a cluster with one.
    """

    MULTI_TENANT = "multi-tenant"
    SINGLE_TENANT = "single-tenant"


_STRICT: Final[Mapping[str, str]] = {"allowed_images": NO_IMAGE, "job_signatures": "required"}
_OPEN: Final[Mapping[str, str]] = {"service_account": "", "allow_unimpersonated_releases": "true"}
_OF_JOBS: Final = frozenset({"job_signatures"})
_BY_NAME: Final = {setting.name: setting for setting in SETTINGS}
_GIVEN_OTHERWISE: Final = frozenset(
    {"namespace", "agent", "cluster_id", "velero_namespace", "leader_elect", "shard", "listen", "webhook_listen"}
    | {"webhook_certificates", "kubeconfig", "token_file", "control_plane_url", "templates", "applied_boxes"}
)
"""The settings that `--setting` cannot set: options of `manifests`, the pod spec or the credentials Secret set them."""

CHOSEN_SETTINGS: Final = tuple(setting for setting in SETTINGS if setting.name not in _GIVEN_OTHERWISE)
"""The settings of `run` that users may choose for an installation."""


def profile_flags(profile: Profile, chosen: Mapping[str, str], *, agent: bool) -> list[str]:
    """Return the command-line arguments of `run` that set the settings of a profile.

    The user's settings `chosen` are included, and replace those of the profile. If `agent` is False, the profile's
    settings about jobs are left out.
    """
    desired = {**profile_settings(profile, agent=agent), **chosen}
    return [_flag(_BY_NAME[name], text) for name, text in sorted(desired.items())]


def profile_settings(profile: Profile, *, agent: bool) -> dict[str, str]:
    """Return the settings of the command `run` that a profile sets: their values as text, by name.

    If `agent` is False (there is no control plane), settings about jobs are left out.
    """
    of_profile = _STRICT if profile is Profile.MULTI_TENANT else _OPEN
    return {name: text for name, text in of_profile.items() if agent or name not in _OF_JOBS}


def _flag(setting: Setting, text: str) -> str:
    value: Any = setting.setting_type.read(text)
    if isinstance(value, bool):
        return setting.flag if value else "--no-" + setting.flag.removeprefix("--")
    return f"{setting.flag}={as_text(value)}"


def read_settings(given: list[str]) -> dict[str, str]:
    """Return the settings given as NAME=VALUE, such as `log-level=debug`, by the flag `--setting`.

    Raises CommandError for an unknown setting or an invalid value.
    """
    values: dict[str, str] = {}
    for setting in given:
        name, equals, text = setting.partition("=")
        key = name.strip().removeprefix("--").replace("-", "_")
        if not equals or key not in _BY_NAME or key in _GIVEN_OTHERWISE:
            known = ", ".join(setting.flag[2:] for setting in CHOSEN_SETTINGS)
            message = f"--setting {setting}: give NAME=VALUE with a setting of run, one of {known}"
            raise CommandError(message, status=USAGE)
        try:
            _BY_NAME[key].setting_type.read(text)
        except ValueError as error:
            raise CommandError(f"--setting {setting}: {error}", status=USAGE) from error
        values[key] = text
    return values
