"""The needs of every process: logs, signals, files, HTTP for untrusted clients, errors of commands."""
