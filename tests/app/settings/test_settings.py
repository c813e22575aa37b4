"""Settings: flag over environment over file over default, all problems at once, secrets masked (RUN-5)."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from purekube_run.process.command_line import USAGE, CommandError
from vworkspace_app import commands
from vworkspace_app.settings import RunSettings, load
from vworkspace_app.settings.loading import CONFIG_VARIABLE, print_config
from vworkspace_app.settings.table import SETTINGS

GOOD: dict[str, list[str]] = {
    "a Go duration": ["1m", "2h30m", "90s"],
    "true or false": ["true", "false", "TRUE"],
    "a URL": ["https://a.example.com", "https://b:8069", "https://c.example.com/odoo"],
    "a file": ["/a/b", "c", "d e"],
    "a folder": ["/a/b", "c", "d e"],
    "text": ["one", "two", "yes"],
    "HOST:PORT": ["127.0.0.1:0", "0.0.0.0:8080", "[::1]:65535"],
    "files, by comma": ["a.yaml", "b.yaml, c.yaml", "/d/e.yaml,"],
    "names, by comma": ["one", "two,three", "registry.example.com/safe/"],
    "the value of a label": ["prod-1", "x", "A.b_c"],
    "a namespace": ["velero", "backups", "v-1"],
    "I/N": ["0/2", "1/2", "63/64"],
    "some of cluster, ns, params, uid, by comma": ["uid", "cluster, ns", "params"],
}

GOOD_FOR: dict[str, list[str]] = {
    "leader_elect_lease_duration": ["20s", "30s", "1m"],
    "leader_elect_renew_deadline": ["9s", "8s500ms", "8s"],
    "leader_elect_retry_period": ["1s", "500ms", "3s"],
}
"""Where not every text of the shape goes with the defaults of the others."""

BESIDE = {
    "control_plane_url": "https://x",
    "cluster_id": "x",
    "listen": "127.0.0.1:2",
    "webhook_listen": "127.0.0.1:1",
    "webhook_certificates": "c",
    "leader_elect": "true",
    "webhook_client_authority": "/a/ca.crt",
    "notify_url": "https://hooks.example.com/vw",
    "traces_url": "https://collector.example.com/v1/traces",
}
"""What some settings need beside them."""


def texts(row: Any) -> list[str]:
    """Three texts that a setting takes."""
    about = row.setting_type.about
    found = GOOD_FOR.get(row.name) or GOOD.get(about) or re.split(r", | or ", about)
    if about.startswith("between"):
        least, most = (int(bound) for bound in re.findall(r"\d+", about))
        found = [str(least), str(most), str((least + most) // 2)]
    assert len(found) > 1, f"say here which texts {row.name} takes"
    return found


def file_of(folder: Path, content: Any) -> Path:
    path = folder / "settings.yaml"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def problems(**sources: Any) -> list[str]:
    """What `load` complains of."""
    with pytest.raises(CommandError) as raised:
        load(sources.get("flags", {}), sources.get("environ", {}), sources.get("file"))
    assert raised.value.status == USAGE
    return raised.value.message.split("; ")


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.name)
def test_a_flag_wins_over_the_environment_over_the_file_over_the_default(row: Any, tmp_path: Path) -> None:
    first, second, third = (texts(row) * 2)[:3]
    file = file_of(tmp_path, {row.key: third})

    def found(flags: Any, environ: Any, path: Path | None) -> tuple[Any, str]:
        beside = {"agent": "false"} if row.name == "agent" else {}
        others = {name: text for name, text in BESIDE.items() if name != row.name and fits(name, beside)}
        loaded = load(others | flags, environ, path)
        return getattr(loaded.settings, row.name), loaded.origins[row.name]

    assert found({row.name: first}, {row.variable: second}, file) == (row.setting_type.read(first), row.flag)
    assert found({row.name: None}, {row.variable: second}, file) == (row.setting_type.read(second), row.variable)
    assert found({}, {}, file) == (row.setting_type.read(third), f"{file}: {row.key}")
    assert found({}, {CONFIG_VARIABLE: str(file)}, None) == (row.setting_type.read(third), f"{file}: {row.key}")
    nobody = load({}, {row.variable: ""})
    assert (getattr(nobody.settings, row.name), nobody.origins[row.name]) == (row.default, "default")


def test_all_problems_are_told_at_once_each_with_its_place(tmp_path: Path) -> None:
    file = file_of(tmp_path, {"wrokers": 3, "timeout": 5, "interval": ["5m"], "allowHttp": {}, "nonsense": 1})

    assert problems(flags={"workers": "many"}, environ={"VWORKSPACE_WAIT": "-1"}, file=file) == [
        f"{file}: wrokers: no such setting",
        "did you mean workers?",
        f"{file}: interval: one value is wanted, not a list",
        f"{file}: allowHttp: one value is wanted, not a mapping",
        f"{file}: nonsense: no such setting",
        "--workers many: between 1 and 64",
        f"{file}: timeout 5: not a Go duration such as 5m or 90s",
        "VWORKSPACE_WAIT '-1': between 0 and 300",
    ]


@pytest.mark.parametrize(
    ("line", "name", "expected"),
    [
        ("forbiddenVersions: 1.10", "forbidden_versions", ("1.10",)),
        ("clusterId: 0123", "cluster_id", "0123"),
        ("clusterId: 1e3", "cluster_id", "1e3"),
        ("clusterId: no", "cluster_id", "no"),
        ("wait: 030", "wait", 30),
        ("allowHttp: yes", "allow_http", True),
        ("agent: Off\nclusterId: x", "agent", False),
        ("serviceAccount: ~", "service_account", RunSettings().service_account),
    ],
)
def test_a_value_in_the_file_is_the_text_that_is_written_there(
    line: str, name: str, expected: object, tmp_path: Path
) -> None:
    """As a number, the version 1.10 would be 1.1, which nobody meant to forbid."""
    assert getattr(load({}, {}, file_of(tmp_path, line)).settings, name) == expected


@pytest.mark.parametrize("name", ["interval", "timeout"])
def test_no_time_at_all_is_refused_where_flux_would_do_nothing_or_give_up_at_once(name: str) -> None:
    assert problems(flags={name: "0m0s"}) == [f"--{name} 0m0s: has to be longer than 0s"]


@pytest.mark.parametrize(
    "text", ["8080", ":8080", "127.0.0.1", "host:65536", "host:-1", "::1:80", "http://host:80", "a b:80"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    told = f"--listen {text}: give HOST:PORT, such as 0.0.0.0:9443"

    assert problems(flags={"listen": text}) == [told]


@pytest.mark.parametrize("text", ["", "c" * 63, "prod-1", "Prod_1.eu"])
def test_a_cluster_id_is_what_a_label_can_hold_RES_5(text: str) -> None:
    assert load({"cluster_id": text}, {}).settings.cluster_id == text


@pytest.mark.parametrize("text", ["c" * 64, "prod 1", "prod/1", "-prod", "prod.", "pröd", "prod\n"])
def test_a_cluster_id_that_no_label_can_hold_is_refused_where_it_is_said_RES_5(text: str, tmp_path: Path) -> None:
    rule = "at most 63 letters, digits, -, _ and ., first and last a letter or digit"
    shown = f"'{text}'" if text.startswith("-") else text
    told = f"{shown}: not the value of a label: {rule}"
    file = file_of(tmp_path, {"clusterId": text})

    assert problems(flags={"cluster_id": text}) == [f"--cluster-id {told}"]
    assert problems(environ={"VWORKSPACE_CLUSTER_ID": text}) == [f"VWORKSPACE_CLUSTER_ID {told}"]
    assert problems(file=file) == [f"{file}: clusterId {told}"]


def test_lists_are_by_comma_and_say_what_they_do_not_take() -> None:
    settings = load({"templates": "a.yaml, b.yaml", "allowed_images": ""}, {}, None).settings

    assert (settings.templates, settings.allowed_images) == (("a.yaml", "b.yaml"), ())
    assert problems(flags={"required_claim_bindings": "uid,moon", "velero_namespace": "Velero.io"}) == [
        "--velero-namespace Velero.io: not the name of a namespace",
        "--required-claim-bindings uid,moon: use some of cluster, ns, params, uid, by comma",
    ]


def test_settings_that_need_each_other_say_so_and_one_that_is_wrong_is_there_all_the_same() -> None:
    needs = "--token-file needs --control-plane-url and --cluster-id beside it"

    assert problems(flags={"token_file": "t", "cluster_id": "c"}) == [needs]
    assert problems(flags={"token_file": "t", "cluster_id": "c"}, environ={"VWORKSPACE_CONTROL_PLANE_URL": ""}) == [
        needs
    ]
    assert problems(flags={"token_file": "t", "cluster_id": "c", "control_plane_url": "odoo"}) == [
        "--control-plane-url odoo: not a URL such as https://odoo.example.com"
    ]


@pytest.mark.parametrize("url", ["https://[::1", "https://odoo.example.com:80a", "https://odoo.example.com:99999"])
@pytest.mark.parametrize("name", ["control_plane_url", "notify_url", "traces_url", "page_url"])
def test_a_url_with_a_broken_address_or_port_is_told_in_one_line(name: str, url: str) -> None:
    (told,) = problems(flags={name: url})
    assert told.startswith(f"--{name.replace('_', '-')} {url}: ")


def test_without_an_agent_nothing_asks_for_a_control_plane_and_what_would_be_ignored_is_refused_SEE_4() -> None:
    assert not load({"agent": False, "cluster_id": "prod-1"}, {}).settings.agent
    assert not load({}, {"VWORKSPACE_AGENT": "false", "VWORKSPACE_CLUSTER_ID": "prod-1"}).settings.agent
    assert problems(flags={"agent": False}) == [
        "--no-agent needs --cluster-id: what the label app.vworkspace.io/cluster-id says on the objects of this cluster"
    ]
    url = "https://odoo.example.com"
    assert problems(
        flags={"agent": False, "cluster_id": "c", "token_file": "t"}, environ={"VWORKSPACE_CONTROL_PLANE_URL": url}
    ) == ["--control-plane-url, --token-file: of no use with --no-agent, which calls no control plane"]
    assert problems(flags={"agent": False, "cluster_id": "c", "webhook_listen": "127.0.0.1:1"}) == [
        "--webhook-listen and --webhook-certificates need each other"
    ]


@pytest.mark.parametrize("name", ["leader_elect_resource_name", "leader_elect_lease_duration", "leader_elect_identity"])
def test_what_is_said_of_an_election_that_is_not_held_is_refused(name: str) -> None:
    flags = {"agent": False, "cluster_id": "x", name: "20s"}
    with pytest.raises(CommandError, match=f"--{name.replace('_', '-')}: of no use without --leader-elect"):
        load(flags, {})
    load({**flags, "leader_elect": True}, {})


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("- a", "one mapping of names to values is wanted"),
        ("a: [", "not valid YAML"),
        ("wait: 1\nwait: 2", "twice"),
    ],
)
def test_a_file_that_is_no_settings_file_is_named(content: str, problem: str, tmp_path: Path) -> None:
    file = file_of(tmp_path, content)

    with pytest.raises(CommandError, match=problem) as raised:
        load({}, {}, file)
    assert str(file) in raised.value.message


def test_an_empty_file_is_no_problem(tmp_path: Path) -> None:
    assert load({}, {}, file_of(tmp_path, "# nothing yet\n")).settings == RunSettings()


@st.composite
def chosen(draw: st.DrawFn) -> dict[str, str]:
    """Flags, each given or not."""
    rows = draw(st.lists(st.sampled_from(SETTINGS), unique=True))
    flags: dict[str, str] = {row.name: draw(st.sampled_from(texts(row))) for row in rows}
    named = {**BESIDE, **flags}
    return {name: text for name, text in named.items() if fits(name, named)}


def fits(name: str, flags: dict[str, str]) -> bool:
    """Tell whether a setting can be given with these: a control plane needs an agent, shards and terms an election."""
    if name == "shard" or name.startswith("leader_elect_"):
        return flags.get("leader_elect") != "false"
    return flags.get("agent") != "false" or name not in ("control_plane_url", "token_file")


@pytest.mark.slow
@given(flags=chosen())
def test_what_is_printed_is_a_settings_file_that_says_the_same(
    flags: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    loaded = load(flags, {})
    file = file_of(tmp_path_factory.mktemp("printed"), print_config(loaded))

    assert load({}, {}, file).settings == loaded.settings


@pytest.mark.parametrize("origin", ["flag", "variable", "file"])
def test_a_password_in_a_url_is_masked_when_printed_and_when_refused(origin: str, tmp_path: Path) -> None:
    def sources(url: str) -> dict[str, Any]:
        return {
            "flags": {"control_plane_url": url} if origin == "flag" else {},
            "environ": {"VWORKSPACE_CONTROL_PLANE_URL": url} if origin == "variable" else {},
            "file": file_of(tmp_path, {"controlPlaneUrl": url}) if origin == "file" else None,
        }

    good = sources("https://agent:hunter2@odoo.example.com")
    printed = print_config(load(good["flags"], good["environ"], good["file"]))
    assert yaml.safe_load(printed)["controlPlaneUrl"] == "https://***@odoo.example.com"
    assert "hunter2" not in "".join(problems(**sources("ftp://agent:hunter2@odoo.example.com")))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("VWORKSPACE_WORKER", "VWORKSPACE_WORKERS"),
        ("VWORKSPACE_LOGLEVEL", "VWORKSPACE_LOG_LEVEL"),
        ("VWORKSPACE_CLUSTERID", "VWORKSPACE_CLUSTER_ID"),
    ],
)
def test_a_misspelt_variable_is_refused_and_says_which_was_meant(name: str, meant: str) -> None:
    assert problems(environ={name: "1"}) == [f"{name}: no such setting", f"did you mean {meant}?"]


@pytest.mark.parametrize("name", ["VWORKSPACE_FOO", "VWORKSPACE_PORTAL", "VWORKSPACE_SERVICE"])
def test_a_variable_that_is_no_setting_is_refused_like_a_key_of_the_file(name: str) -> None:
    assert problems(environ={name: "1"}) == [f"{name}: no such setting"]


def test_the_namespace_has_the_name_that_manifests_gives_it_too(tmp_path: Path) -> None:
    file = file_of(tmp_path, {"systemNamespace": "in-file"})

    assert load({}, {"VWORKSPACE_SYSTEM_NAMESPACE": "mine"}).settings.namespace == "mine"
    assert load({}, {"VWORKSPACE_NAMESPACE": "old", "VWORKSPACE_SYSTEM_NAMESPACE": "mine"}).settings.namespace == "old"
    assert load({}, {}, file).settings.namespace == "in-file"


def test_variables_of_other_commands_and_those_of_kubernetes_are_nobodys_misspelling() -> None:
    texts = [path.read_text(encoding="utf-8") for path in Path(commands.__file__ or "").parent.glob("*.py")]
    own = {row.variable for row in SETTINGS}  # `status` reads the one of `run` for the page
    others = [name for name in re.findall(r'env_var="(\w+)"', "".join(texts)) if name not in own]
    services = ("VWORKSPACE_OPERATOR", "VWORKSPACE_OPERATOR_METRICS", "VWORKSPACE_OPERATOR_WEBHOOK")
    made = [f"{name}{end}" for name in services for end in ("_SERVICE_HOST", "_SERVICE_PORT", "_PORT", "_PORT_443_TCP")]

    assert len(others) >= 3
    assert load({}, dict.fromkeys((*others, *made, "WORKSPACE", "VWORKSPACE_"), "1")).settings == RunSettings()


def test_no_variable_can_be_one_that_kubernetes_makes_for_a_service() -> None:
    made = re.compile(r".*(_SERVICE_HOST|_SERVICE_PORT(_\w+)?|_PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)")

    assert [row.variable for row in SETTINGS if made.fullmatch(row.variable)] == []
