"""Parts that every process needs: logs, signals, files, HTTP for untrusted clients, errors of commands."""
