"""What every process of ours needs: logs, signals, files, HTTP towards strangers, errors of commands."""
