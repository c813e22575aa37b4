"""What a pod uses of a quota, as kube-apiserver's evaluators count it."""

from typing import Any

from kubelab.admission.quotas import usage_of


def used(**spec: Any) -> dict[str, str]:
    pod = {"metadata": {"name": "a"}, "spec": spec}
    return {name: str(amount) for name, amount in usage_of(("", "pods"), pod).items()}


def container(cpu: str, memory: str = "") -> dict[str, Any]:
    limits = {"cpu": cpu, **({"memory": memory} if memory else {})}
    return {"name": "c", "resources": {"requests": limits, "limits": limits}}


def test_the_overhead_of_a_pod_is_no_limit_where_it_has_none() -> None:
    usage = used(containers=[container("500m")], overhead={"cpu": "1", "memory": "64Mi"})
    assert (usage["requests.cpu"], usage["limits.cpu"]) == ("1500m", "1500m")
    assert usage["requests.memory"] == "64Mi"
    assert "limits.memory" not in usage


def test_a_sum_has_the_notation_of_its_first_amount() -> None:
    usage = used(containers=[container("1", "1Gi"), container("1", "1000000000")])
    assert usage["limits.memory"] == "2073741824"
    assert used(containers=[container("1", "512Mi"), container("1", "512Mi")])["limits.memory"] == "1Gi"
