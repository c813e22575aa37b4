"""The demo: the whole pull-mode sequence over real HTTP, live, checking what it shows."""
