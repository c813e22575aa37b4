"""The Helm chart `deploy/chart`, written by the generator that `manifests` prints with (SEE-5)."""
