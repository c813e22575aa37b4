"""Every file of the chart by its path in the repository."""

from collections.abc import Mapping
from typing import Final

from tools.chart.pages import NOTES, chart_page, readme_page, schema_page, values_page
from tools.chart.templates import templates

FOLDER: Final = "deploy/chart"


def chart() -> Mapping[str, str]:
    """Return the text of each file of the chart by its path."""
    files = {
        "Chart.yaml": chart_page(),
        "README.md": readme_page(),
        "values.yaml": values_page(),
        "values.schema.json": schema_page(),
        "templates/NOTES.txt": NOTES,
        **{f"templates/{name}": text for name, text in templates().items()},
    }
    return {f"{FOLDER}/{name}": text for name, text in files.items()}
