"""The demo: the whole sequence of pull mode, live and over real HTTP. Everything that it shows is also checked."""
