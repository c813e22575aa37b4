"""The repository's own tools, no part of the product: generators of documentation, dashboards and manifests."""
