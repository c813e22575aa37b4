"""Records what comes of the corpus: `python -m tests.corpus.record`.

Right only where behaviour is meant to change: then the difference in `golden/` is part of the change, and is to be read
line by line. A commit that moves, renames or unifies never needs it.
"""

from tests.corpus.corpus import fingerprint, golden, pass_name, worlds, write_lines
from tests.corpus.passes import STORIES, record
from tests.corpus.play import play


def main() -> None:
    """Write every file of `golden/` anew."""
    for name, world in worlds().items():
        write_lines(golden(name), [{"world": fingerprint(one), "comes to": play(one)} for one in world])
    for name, story in STORIES.items():
        write_lines(golden(pass_name(name)), record(story))


if __name__ == "__main__":
    main()
