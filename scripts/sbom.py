"""Print a CycloneDX bill of materials of a lock file: what the image installs beside its base. No package is needed."""

import json
import re
import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
PINNED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)", re.MULTILINE)


def component(name: str, version: str) -> dict[str, str]:
    """A library of the Python ecosystem, by its package URL."""
    ref = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    return {"type": "library", "bom-ref": ref, "name": name, "version": version, "purl": ref}


def bill(lock: str) -> dict[str, object]:
    """The same bill for the same lock: no times, no serial number."""
    parts = [component(found["name"], found["version"]) for found in PINNED.finditer(lock)]
    whole = {"type": "application", "bom-ref": PROJECT["name"], "name": PROJECT["name"], "version": PROJECT["version"]}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**whole, "licenses": [{"license": {"id": PROJECT["license"]}}]}},
        "components": parts,
        "dependencies": [{"ref": PROJECT["name"], "dependsOn": [part["bom-ref"] for part in parts]}],
    }


if __name__ == "__main__":
    print(json.dumps(bill(Path(sys.argv[1]).read_text(encoding="utf-8")), indent=1))
