"""Records the day anew: `python -m tests.e2e.day.record`.

Right only where what people see is meant to change: then the difference is part of the change, and is to be read line
by line, as whoever sits before it does.
"""

from tests.e2e.day import picture
from tests.e2e.day.story import golden, replayed


def main() -> None:
    """Write every file of the day, and draw the picture of it."""
    for width, shown in replayed().items():
        golden(width).write_text(shown, encoding="utf-8")
    picture.main()


if __name__ == "__main__":
    main()
