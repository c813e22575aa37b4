"""What a RunCommand's pod may do, and how secrets reach it (OPS-8, RES-7; M7, D18)."""

from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.operation_worlds import CONTEXT, conditions_of, message_of, observed, operation
from tests.support.strategies import json_values
from vworkspace_core.api.admission import check_operation, command_problems
from vworkspace_core.operations.preconditions import Start, start_or_unmet
from vworkspace_core.operations.reconcile import reconcile_operation

BASE: dict[str, Any] = {"image": "registry.example/tool:1"}


def pod_of(context: Any = CONTEXT, **parameters: Any) -> dict[str, Any]:
    found = start_or_unmet(operation(parameters={**BASE, **parameters}), observed(), context)
    assert isinstance(found, Start), found
    pod: dict[str, Any] = found.objects[0].manifest["spec"]["template"]["spec"]
    return pod


def container_of(**parameters: Any) -> dict[str, Any]:
    (container,) = pod_of(**parameters)["containers"]
    return dict(container)


def refused(**parameters: Any) -> str:
    decision = reconcile_operation(operation(parameters={**BASE, **parameters}), observed(), CONTEXT)
    assert conditions_of(decision)["Accepted"] == ("False", "ValidationFailed")
    return message_of(decision, "Accepted")


# --- what the pod may do ----------------------------------------------------------------------------------------------


def test_no_token_is_mounted_unless_an_account_is_allowed_by_name() -> None:
    allowed = attrs.evolve(CONTEXT.settings, allowed_service_accounts=frozenset({"exporter"}))
    context = attrs.evolve(CONTEXT, settings=allowed)

    assert pod_of()["automountServiceAccountToken"] is False
    assert pod_of(context, serviceAccountName="vworkspace-operation-runner")["automountServiceAccountToken"] is False
    assert pod_of(context, serviceAccountName="exporter")["automountServiceAccountToken"] is True
    assert "--allowed-service-accounts=exporter" in refused(serviceAccountName="exporter")


RESOURCES = [
    (None, ("50m", "64Mi"), ("1", "512Mi")),
    ({"limits": {"memory": "4Gi"}}, ("50m", "4Gi"), ("1", "4Gi")),
    ({"requests": {"cpu": "2"}}, ("2", "64Mi"), ("2", "512Mi")),
    ({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "4"}}, ("1", "1Gi"), ("4", "1Gi")),
]


@pytest.mark.parametrize(("given", "requests", "limits"), RESOURCES, ids=range(len(RESOURCES)))
def test_requests_and_limits_have_defaults(given: Any, requests: Any, limits: Any) -> None:
    resources = container_of(**({} if given is None else {"resources": given}))["resources"]

    assert resources == {
        "requests": dict(zip(("cpu", "memory"), requests, strict=True)),
        "limits": dict(zip(("cpu", "memory"), limits, strict=True)),
    }


def test_a_command_is_not_tried_for_ever() -> None:
    assert "spec.parameters.backoffLimit" in refused(backoffLimit=11)


# --- secrets ----------------------------------------------------------------------------------------------------------


def test_secrets_reach_a_command_by_reference() -> None:
    key = {"name": "db", "key": "password"}
    container = container_of(
        env=[{"name": "LANG", "value": "C"}, {"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": key}}],
        envFrom=[{"secretRef": {"name": "db"}, "prefix": "DB_"}, {"configMapRef": {"name": "c", "optional": True}}],
    )

    assert container["env"] == [
        {"name": "LANG", "value": "C"},
        {"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": key}},
    ]
    assert container["envFrom"] == [
        {"secretRef": {"name": "db"}, "prefix": "DB_"},
        {"configMapRef": {"name": "c", "optional": True}},
    ]


@pytest.mark.parametrize(
    "env",
    [
        [{"name": "A"}],
        [{"name": "A", "value": "x", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}],
        [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        [{"name": "A", "valueFrom": {}}],
        [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "../x", "key": "b"}}}],
    ],
)
def test_other_sources_are_refused_with_their_path(env: Any) -> None:
    assert "spec.parameters.env[0]" in refused(env=env)


PEM = "-----BEGIN RSA PRIVATE KEY-----\nMII"
INLINE: list[tuple[dict[str, Any], str]] = [
    ({"env": {"DB_PASSWORD": "hunter2"}}, "env.DB_PASSWORD"),
    ({"env": {"API_KEY": "hunter2"}}, "env.API_KEY"),
    ({"env": {"ACCESS_TOKEN": "hunter2"}}, "env.ACCESS_TOKEN"),
    ({"env": {"CERT": PEM}}, "env.CERT"),
    ({"env": [{"name": "A", "value": "b"}, {"name": "client_secret", "value": "hunter2"}]}, "env[1].value"),
    ({"args": ["--password=hunter2"]}, "args[0]"),
    ({"args": ["--verbose", "--db-password", "hunter2"]}, "args[2]"),
    ({"args": ["--api-key", "hunter2"]}, "args[1]"),
    ({"args": ["PGPASSWORD='hunter2' pg_dump"]}, "args[0]"),
    ({"command": ["sh", "-c", "mysql --password=hunter2 < /dump"]}, "command[2]"),
    ({"args": [PEM]}, "args[0]"),
]


@pytest.mark.parametrize(("parameters", "path"), INLINE, ids=[f"{i}-{path}" for i, (_, path) in enumerate(INLINE)])
def test_a_secret_that_stands_in_the_operation_is_refused_and_not_repeated_RES_7(
    parameters: dict[str, Any], path: str
) -> None:
    told = refused(**parameters)

    assert f"spec.parameters.{path}: " in told
    assert "secretKeyRef" in told
    assert "hunter2" not in told
    webhook = check_operation(operation(parameters={**BASE, **parameters}))
    assert [problem.path for problem in webhook] == [f"spec.parameters.{path}"], "the webhook refuses the same"


@pytest.mark.parametrize(
    "parameters",
    [
        {"env": {"DB_PASSWORD": ""}},
        {"env": {"DB_PASSWORD": "<set via externalSecret>"}},
        {"env": {"EXISTING_SECRET": "db", "SECRET_NAME": "db", "TOKEN_URL": "https://example.com"}},
        {"args": ["--password=$DB_PASSWORD", '--token="$(cat /run/token)"', "PGPASSWORD=${PW} psql"]},
        {"args": ["--password", "$DB_PASSWORD"]},
        {"args": ["--password-file=/run/secrets/db", "--token-ttl", "3600", "--no-password", "--verbose"]},
        {"args": ["reset-password", "alice"]},
    ],
    ids=range(7),
)
def test_references_and_names_are_no_secrets_RES_7(parameters: dict[str, Any]) -> None:
    assert command_problems(parameters, "spec.parameters") == ()


@given(json_values(12), json_values(12))
@example([{"name": ["x"], "value": {}}], [{}])
def test_any_environment_and_arguments_are_judged_RUN_11(env: Any, args: Any) -> None:
    command_problems({"env": env, "args": args, "command": args}, "spec.parameters")


@pytest.mark.slow
@given(st.sampled_from(["password", "a", "=", "-", "token=", "'", '"', "$", " "]), st.integers(1, 5))
def test_long_words_are_judged_in_linear_time_RUN_11(piece: str, power: int) -> None:
    """No seconds are measured: a quadratic search would not come back from the longest of these."""
    assert len(command_problems({"args": [piece * 5 * 10**power] * 2}, "p")) <= 2


def test_problems_are_counted_to_32() -> None:
    assert len(command_problems({"args": ["--password=x"] * 1000}, "p")) == 32


def test_variables_and_words_are_searched_up_to_the_thousandth_or_so() -> None:
    def paths(parameters: dict[str, Any]) -> list[str]:
        return [problem.path for problem in command_problems(parameters, "p")]

    plain = {"name": "A", "value": "x"}
    assert paths({"env": [plain] * 1023 + [{"name": "A_TOKEN", "value": "x"}]}) == ["p.env[1023].value"]
    assert paths({"env": [plain] * 1024 + [{"name": "A_TOKEN", "value": "x"}]}) == []
    assert paths({"args": ["a"] * 1023 + ["--token=x"]}) == ["p.args[1023]"]
    assert paths({"args": ["a"] * 1024 + ["--token=x"]}) == []


@pytest.mark.parametrize(
    ("env", "path"),
    [
        ([{"name": "A_TOKEN", "value": "x"}], "p.env[0].value"),
        ([{"value": "x"}], ""),
        (["odd", {"name": "A_TOKEN", "value": 7}, {"name": "TOKEN", "value": "x"}], "p.env[2].value"),
        ([{"name": "A", "value": "-----BEGIN RSA PRIVATE KEY-----"}], "p.env[0].value"),
        ([{"value": "-----BEGIN RSA PRIVATE KEY-----"}], "p.env[0].value"),
        ({"A_TOKEN": "x"}, "p.env.A_TOKEN"),
        ({"A_TOKEN": "'$X'"}, ""),
        ({"A_TOKEN": " "}, ""),
        ({"A_TOKEN": "'\"'"}, ""),
        ({"existingToken": "x"}, ""),
        ({"TOKEN_FILE": "x"}, ""),
        ("odd", ""),
        (None, ""),
    ],
)
def test_a_variable_is_a_secret_by_its_name_or_by_its_value_RES_7(env: Any, path: str) -> None:
    assert [problem.path for problem in command_problems({"env": env}, "p")] == [path][: bool(path)]


@pytest.mark.parametrize(
    ("words", "places"),
    [
        (["--password", "x"], [1]),
        (["--password", "--verbose"], []),
        (["--password", "$X"], []),
        (["--db.password", "x", "y"], [1]),
        (["password", "x"], []),
        (["--password"], []),
        (["--password", 7, "x"], []),
        (["a password=x", "PGPASSWORD='x y' psql"], [0, 1]),
        (["api-key=x", "apikey=x", "api_key=x", "xapi=x"], [0, 1, 2]),
        (["--password=", "--password=''"], []),
        (("--password=x",), [0]),
        ("--password=x", []),
    ],
)
@pytest.mark.parametrize("field", ["command", "args"])
def test_a_word_is_a_secret_after_its_flag_or_as_its_value_RES_7(field: str, words: Any, places: list[int]) -> None:
    assert [problem.path for problem in command_problems({field: words}, "p")] == [f"p.{field}[{at}]" for at in places]
