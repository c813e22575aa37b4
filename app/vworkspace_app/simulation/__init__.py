"""One world in one thread under virtual time: cluster, control plane, replicas of the operator, workload, faults."""
