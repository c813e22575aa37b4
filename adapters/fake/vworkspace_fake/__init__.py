"""The embedded vWorkspace control plane, for tests, demo and development.

It is the side of Odoo that sends jobs (units of work) to the operator in a cluster. The simulated Kubernetes cluster is
a package of its own, `kubelab`.
"""
