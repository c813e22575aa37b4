"""SEE-3: the list of objects, and that of jobs, as HTML: their counts, and where links lead."""

from urllib.parse import parse_qsl, urlsplit

from purekube.apimachinery.manifest import ObjectRef
from tests.support.page_text import Element, elements
from vworkspace_app.page.operator_screens import jobs_part, list_screen
from vworkspace_app.page.rendering import Renderer
from vworkspace_app.page.screens import PageContent, list_query
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.jobs.state import JobStage, JobState
from vworkspace_core.overview.object_list import ListRow, list_view
from vworkspace_core.overview.summary import OverviewState

ROWS = [
    ListRow(
        ObjectRef(APPLICATION_INSTANCE, f"ns-{at % 300:03}", f"app-{at:03}"),
        OverviewState.STALLED if at < 5 else OverviewState.READY,
    )
    for at in range(400)
]


def drawn(query: str) -> list[Element]:
    """The elements of the list at a query."""
    screen = list_screen(list_view(ROWS, list_query(dict(parse_qsl(query)))))
    parts = Renderer("test", ()).screen(screen, "/").parts
    return elements("".join(part.html for part in parts.values()))


def found(query: str) -> int:
    """The number of rows at a query, on all pages."""
    return list_view(ROWS, list_query(dict(parse_qsl(query)))).found


def test_what_the_headline_counts_is_what_its_link_shows_SEE_3() -> None:
    for query in ("", "namespace=ns-250", "q=app-1", "state=Ready&dense=1"):
        link = next(one for one in drawn(query) if one.tag == "a" and one.text == "5 of 400 objects need you")
        led = urlsplit(link.attributes["href"]).query
        assert found(led) == 5, query
        assert ("dense=1" in led) is ("dense=1" in query)


def test_the_filter_of_what_needs_a_person_counts_what_it_would_show_SEE_3() -> None:
    for query in ("", "namespace=ns-003", "q=app-00"):
        chip = next(one for one in drawn(query) if one.attributes.get("class") == "chip" and "needs you" in one.text)
        assert chip.text == f"needs you {found(urlsplit(chip.attributes['href']).query)}", query
    assert not any(
        "needs you" in one.text
        for one in drawn("namespace=ns-250")
        if one.tag == "a" and "chip" in one.attributes.get("class", "")
    )


def test_the_chosen_namespace_is_the_one_that_the_form_sends_SEE_3() -> None:
    for namespace in ("ns-003", "ns-250", "typed-by-hand"):
        chosen = [
            one for one in drawn(f"namespace={namespace}") if one.tag == "option" and "selected" in one.attributes
        ]
        assert [one.attributes["value"] for one in chosen] == [namespace]


def test_open_jobs_that_are_left_out_are_counted_SEE_3() -> None:
    """With 203 open jobs the page showed 200, as if there were no more."""
    jobs = [JobState(f"job-{at:03}", at, {}, None, "", None, JobStage.WAITING) for at in reversed(range(203))]
    parts = Renderer("test", ()).screen(PageContent("Operator", "operator", (jobs_part(jobs, ()),)), "/").parts
    text = "".join(part.html for part in parts.values())

    assert "job-199" in text
    assert "job-200" not in text
    assert "and 3 younger ones" in text
    few = Renderer("test", ()).screen(PageContent("Operator", "operator", (jobs_part(jobs[:2], ()),)), "/").parts
    assert "younger" not in "".join(part.html for part in few.values())
