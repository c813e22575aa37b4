"""The controller of Cluster objects, which writes the operator's status into them."""
