"""The entry point for `python -m kubelab`, which runs the command line."""

import sys

from kubelab.command import main

sys.exit(main())
