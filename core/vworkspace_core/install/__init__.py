"""What an installation is derived from."""
