"""The facts from which an installation is derived."""
