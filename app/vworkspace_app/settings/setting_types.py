"""The types of settings. All sources (flags, environment, file) give text, so that they are parsed alike."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import attrs

from purekube.apimachinery.fields import camel
from purekube.apimachinery.formats import DNS_LABEL
from purekube.apimachinery.names import LABEL_RULE, is_label_value
from purekube.controller.shard import Shard

T = TypeVar("T")
_KEY: Final = "vworkspace.setting"
_DURATION: Final = re.compile(r"([0-9]+(\.[0-9]+)?(ms|s|m|h))+")
_DNS_LABEL: Final = re.compile(DNS_LABEL)
_URL: Final = re.compile(r"https?://[^/?#\s]+\S*", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:\[\]]+):([0-9]{1,5})")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SWITCH: Final = {"true": True, "false": False}


@attrs.frozen
class SettingType(Generic[T]):
    """The type of a setting. `read` parses a text, and raises ValueError for an invalid one.

    `about` describes valid values.
    """

    about: str
    read: Callable[[str], T]


@attrs.frozen
class Setting:
    """A setting of the operator: its type, its default and its description. `name` is its field in RunSettings."""

    name: str
    setting_type: SettingType[Any]
    default: Any
    about: str
    also: str = ""
    """An alternative name of the setting, in the same form as `name`; empty if there is none."""

    @property
    def flag(self) -> str:
        """The name of the flag, such as `--log-level`."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """The name of the environment variable, such as `VWORKSPACE_LOG_LEVEL`."""
        return f"VWORKSPACE_{self.name.upper()}"

    @property
    def key(self) -> str:
        """The key of the setting in the settings file, such as `logLevel`."""
        return camel(self.name)

    @property
    def flags(self) -> tuple[str, ...]:
        """All flags of the setting: `flag`, and the flag of its second name if it has one."""
        return (self.flag, "--" + self.also.replace("_", "-")) if self.also else (self.flag,)

    @property
    def variables(self) -> tuple[str, ...]:
        """All environment variables of the setting: `variable`, and the variable of its second name if it has one."""
        return (self.variable, f"VWORKSPACE_{self.also.upper()}") if self.also else (self.variable,)

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys of the setting in the settings file: `key`, and the key of its second name if it has one."""
        return (self.key, camel(self.also)) if self.also else (self.key,)

    @property
    def shown_default(self) -> str:
        """The default as text, as a user would write it; empty if there is none."""
        return as_text(self.default) if self.default is not None else ""

    @classmethod
    def of(cls, field: "attrs.Attribute[Any]") -> "Setting":
        """Return the setting that a field of RunSettings declares."""
        setting_type, about, also = field.metadata[_KEY]
        return cls(field.name, setting_type, field.default, about, also)


def as_text(value: Any) -> str:
    """Return a setting's value as text, in the form in which a user would write it."""
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def setting(setting_type: SettingType[T], default: T, about: str, *, also: str = "") -> T:
    """Return an attrs field that declares a setting of this type, with its default and its description `about`.

    `also` is a second name of the setting; empty if there is none.
    """
    field: T = attrs.field(default=default, metadata={_KEY: (setting_type, about, also)})
    return field


def whole_number(least: int, most: int) -> SettingType[int]:
    """Return the type of a setting whose value is a whole number from `least` to `most`."""
    about = f"between {least} and {most}"

    def read(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,18}", text) or not least <= int(text) <= most:
            raise ValueError(about)
        return int(text)

    return SettingType(about, read)


def seconds_of(duration: str) -> float:
    """Return the number of seconds in a Go duration such as 1m30s."""
    parts = re.findall(r"([0-9.]+)(ms|s|m|h)", duration)
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def choice(*words: str) -> SettingType[str]:
    """Return the type of a setting whose value is one of these words, in upper or lower case."""
    about = f"{', '.join(words[:-1])} or {words[-1]}"

    def read(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"use {about}")
        return text.lower()

    return SettingType(about, read)


def _switch(text: str) -> bool:
    if text.lower() not in _SWITCH:
        raise ValueError("use true or false")
    return _SWITCH[text.lower()]


def _go_duration(text: str) -> str:
    if not _DURATION.fullmatch(text):
        raise ValueError("not a Go duration such as 5m or 90s")
    return text


def _url(text: str) -> str:
    if text and not _URL.fullmatch(text):
        raise ValueError("not a URL such as https://odoo.example.com")
    return text


def _address(text: str) -> str:
    match = _ADDRESS.fullmatch(text)
    if text and (match is None or int(match[2]) > 65535):
        raise ValueError("give HOST:PORT, such as 0.0.0.0:9443")
    return text


def _shard(text: str) -> str:
    return str(Shard.of(text))


def _file(text: str) -> Path | None:
    return Path(text) if text else None


def _comma_list(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _name(text: str) -> str:
    if len(text) > 63 or not _DNS_LABEL.fullmatch(text):
        raise ValueError("not the name of a namespace")
    return text


def _label(text: str) -> str:
    if text and not is_label_value(text):
        raise ValueError(f"not the value of a label: {LABEL_RULE}")
    return text


def some_of(*words: str) -> SettingType[tuple[str, ...]]:
    """Return the type of a setting whose value is a comma-separated list of some of these words."""
    about = f"of {', '.join(words)}"

    def read(text: str) -> tuple[str, ...]:
        selection = _comma_list(text)
        if not set(selection) <= set(words):
            raise ValueError(f"use some {about}, by comma")
        return selection

    return SettingType(f"some {about}, by comma", read)


ADDRESS: Final = SettingType("HOST:PORT", _address)
TEXT: Final = SettingType("text", str)
SWITCH: Final = SettingType("true or false", _switch)
GO_DURATION: Final = SettingType("a Go duration", _go_duration)
LABEL: Final = SettingType("the value of a label", _label)
URL: Final = SettingType("a URL", _url)
FILE: Final = SettingType("a file", _file)
FOLDER: Final = SettingType("a folder", _file)
FILES: Final = SettingType("files, by comma", _comma_list)
NAMES: Final = SettingType("names, by comma", _comma_list)
NAMESPACE: Final = SettingType("a namespace", _name)
SHARD: Final = SettingType("I/N", _shard)
