"""The parts that several commands share: options, the connection to a cluster, and the documents of plans."""
