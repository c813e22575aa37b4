"""The readiness of Service and Ingress."""

from collections.abc import Mapping
from typing import Any

from purekube.apimachinery.manifest import Manifest
from purekube.readiness.fields import mapping, text
from purekube.readiness.result import Readiness, progressing, ready


def _addresses(manifest: Manifest) -> list[str]:
    """Return the addresses of the load balancer, whose status is an empty object at first."""
    listed = mapping(manifest, "status", "loadBalancer").get("ingress")
    entries: list[Any] = listed if isinstance(listed, list) else []
    addresses = (text(entry, "ip") or text(entry, "hostname") for entry in entries if isinstance(entry, Mapping))
    return [entry for entry in addresses if entry]


def service(manifest: Manifest) -> Readiness:
    """Judge a Service: type LoadBalancer needs an address; any other is ready once it exists."""
    spec = mapping(manifest, "spec")
    if text(spec, "type") != "LoadBalancer":
        return ready("Exists")
    if not text(spec, "clusterIP"):
        return progressing("NoClusterIP", "it has no address in the cluster yet")
    addresses = _addresses(manifest)
    if not addresses:
        return progressing("LoadBalancerPending", "the load balancer has no address yet")
    return ready("LoadBalancerReady", f"reached at {addresses[0]}")


def ingress(manifest: Manifest) -> Readiness:
    """Judge an Ingress: ready once it has an address."""
    addresses = _addresses(manifest)
    if not addresses:
        return progressing("NoAddress", "no ingress controller has given it an address yet")
    return ready("HasAddress", f"reached at {addresses[0]}")
