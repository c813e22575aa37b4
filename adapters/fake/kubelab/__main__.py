"""`python -m kubelab`."""

import sys

from kubelab.command import main

sys.exit(main())
