"""The simulation of the operator in one thread under virtual time: cluster, control plane, replicas, users, faults."""
