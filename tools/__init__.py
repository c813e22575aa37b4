"""What the repository needs and the product does not: generators of documentation, dashboards and manifests."""
