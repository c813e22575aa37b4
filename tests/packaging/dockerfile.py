"""The Dockerfile as its instructions, stage by stage. No Docker is needed to read it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
Instruction = tuple[str, str]


def instructions() -> list[Instruction]:
    """Name and argument of each."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = (line.strip() for line in text.splitlines())
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines if line and not line.startswith("#")]


def stages() -> list[list[Instruction]]:
    """Those of each stage; what stands before the first `FROM` belongs to none."""
    found: list[list[Instruction]] = []
    for instruction in instructions():
        if instruction[0] == "FROM":
            found.append([])
        if found:
            found[-1].append(instruction)
    return found


def copied() -> set[str]:
    """What the image is made of, as paths of this repository."""
    given = [text for name, text in instructions() if name == "COPY" and not text.startswith("--from")]
    return {source for text in given for source in text.split()[:-1]}
