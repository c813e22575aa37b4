"""Check the base that an image is built on (Dockerfile): a release names it by digest, since a tag can move.

Reads BASE and RELEASE from the environment, as the Dockerfile has them. A build that is no release says that its base
can move, and goes on.
"""

import os
import re
import sys

DIGEST = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")
HOW = "docker buildx imagetools inspect python:3.13-slim --format '{{.Manifest.Digest}}'"


def main() -> None:
    """End with status 1 where a release is to be built on what is not pinned."""
    base, release = os.environ.get("BASE", ""), os.environ.get("RELEASE", "")
    if DIGEST.fullmatch(base):
        return
    told = f"the base {base or 'of this image'} is not named by its digest (NAME@sha256:…); this prints it: {HOW}"
    if release:
        sys.exit(f"RELEASE={release}: {told}")
    print(f"warning: {told}", file=sys.stderr)


if __name__ == "__main__":
    main()
