import re
from html.parser import HTMLParser
from typing import Any

import pytest
from attrs import evolve
from showing import of, on

from fredfw.errors import UnknownNameError
from fredfw.experiment.results import Comparison, Failure, RunResult, TierLoad
from fredfw.experiment.study.results import Objective, StudyResult
from fredfw.report.pages import provenance
from fredfw.report.shown import Details
from fredfw_exporter_html import HtmlExporter

VOID = {"meta", "link", "br", "hr", "img", "input"}
HOSTILE = "<script>alert('x')</script><img src=http://example.com/x onerror=alert(1)>\"&\x1b"


class Checked(HTMLParser):
    """Parses a page, and makes sure that elements are nested and closed; keeps ids, references and texts."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.tags: dict[str, int] = {}
        self.texts: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []
        self.text = " ".join(" ".join(self.texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        for name, value in attrs:
            assert not name.startswith("on"), f"{tag} has {name}"
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "action", "data", "xlink:href", "srcset", "poster"):
                self.references.append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag in VOID or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def check(page: str) -> Checked:
    """Return the parsed ``page``, which needs no other file and holds no script."""
    assert page.startswith("<!DOCTYPE html>")
    parsed = Checked(page)
    assert len(parsed.ids) == len(set(parsed.ids))
    assert all(one.startswith("#") and one[1:] in parsed.ids for one in parsed.references)
    assert not {"script", "link", "iframe", "object", "img", "base", "form"} & set(parsed.tags)
    style = re.findall(r"<style>(.*?)</style>", page, re.S)
    assert not re.search(r"url\(|@import", "".join(style))
    assert "default-src 'none'" in page
    return parsed


def swept(comparison: Comparison) -> Comparison:
    """Return a comparison of six rows of a numeric sweep on two fabrics, with tiers and costs, and a failure."""
    first = comparison.rows[0]
    tier = TierLoad("npu -> switch", 4, 1e9, 0.25, 0.5, "npu0->switch0", {"dp": 3e6, "mp": 1e6})
    used: dict[str, Any] = {"tiers": (tier,), "algorithms": {"dp all-reduce x4": "ring"}}
    rows = []
    for fabric, factor, cost in (("mesh", 1.0, 1e3), ("tree", 0.5, 5e3)):
        for size, time in (("1 kB", 1e-6), ("1 MB", 1e-4), ("1 GB", 1e-1)):
            seconds = time * factor
            row = evolve(on(of(first, "net {size}", size=size), fabric), cost=cost, **used)
            rows.append(evolve(row, seconds=seconds, breakdown={"compute": seconds / 2, "dp": seconds / 2}))
    failure = Failure("net 1 TB", "mesh", "needs too much", True, workload_template="net {size}", place=3)
    found = {"versions": {"fredfw": "0.1.0"}, "files": [{"path": "a.toml", "sha256": "ab" * 32}], "npu": {"peak": 1.0}}
    provenance = {"cells": [{**found, "topology": {"name": row.fabric}} for row in rows]}
    return evolve(comparison, rows=tuple(rows), failures=(failure,), provenance=provenance)


def test_a_page_of_a_comparison_says_all_that_is_needed_and_one_of_failures_alone_why(comparison: Comparison) -> None:
    page = HtmlExporter(command="fredfw compare two.toml").export(swept(comparison))
    parsed = check(page)
    assert parsed.ids == [*("results", "pictures", "time", "links", "algorithms", "assumptions", "provenance", "again")]
    for part in (
        "Two on [three]",
        "7 cells",
        "1 cell has no result",
        "infeasible: needs too much",
        "npu0->switch0",
        "dp 3 MB, mp 1 MB",
        "dp all-reduce x4",
        "follows from the scalar fitted to the calibrated cell",
        "ab" * 32,
        "fredfw compare two.toml",
        "each rank waits for what it sends and receives itself",
    ):
        assert part in parsed.text
    assert parsed.tags["svg"] >= 3
    assert 'aria-label="iteration time, as bars"' in page
    # Light and dark, a phone, and paper.
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    assert 'name="viewport"' in page
    parsed = check(HtmlExporter().export(comparison))
    assert "references" in parsed.ids
    assert "again" not in parsed.ids
    assert "a paper, table 1" in parsed.text
    failure = Failure("net", "mesh", "broke", False)
    page = HtmlExporter().export(evolve(comparison, rows=(), failures=(failure,), provenance={}))
    assert "failed: broke" in check(page).text


def test_pages_of_runs_and_studies_have_limits_best_points_links_pictures_fronts(
    run: RunResult, study: StudyResult
) -> None:
    parsed = check(HtmlExporter(command="fredfw run two.toml").export(run))
    assert parsed.ids == ["why", "time", "assumptions", "provenance", "again"]
    for part in ("critical path", "switch0->npu1", "a note", "What limits it"):
        assert part in parsed.text
    exporter = HtmlExporter(command="fredfw compare two.toml")
    points = tuple(evolve(one, breakdown={"mine": one.seconds or 0.0}) for one in study.points)
    found = evolve(study, points=points, provenance={"versions": {"fredfw": "0.1.0"}})
    page = exporter.export(found)
    parsed = check(page)
    assert parsed.ids == ["results", "pictures", "time", "assumptions", "provenance", "again"]
    for part in ("Three [of] four", "all 2 by least time", "time over tp; best: 2", "fredfw compare two.toml"):
        assert part in parsed.text
    # What came from a store is not a result.
    assert exporter.export(evolve(found, stored=0)) == page
    # Links, and colours that workloads declare.
    tier = TierLoad("npu -> npu", 8, 1e9, 0.25, 0.5, "npu0->npu1", {"mine": 4e6})
    linked = tuple(evolve(one, tiers=(tier,)) for one in points)
    page = exporter.export(evolve(found, points=linked, colours={"mine": "#123456"}))
    parsed = check(page)
    assert parsed.ids == ["results", "pictures", "time", "links", "assumptions", "provenance", "again"]
    assert {"npu0->npu1", "mine 4 MB"} <= set(parsed.texts)
    assert "#123456" in page
    points = tuple(evolve(one, metrics={**one.metrics, "cost": 100.0 * one.number}) for one in study.points[:3])
    both = (*study.objectives, Objective("cost", "", least=True))
    page = HtmlExporter().export(evolve(study, points=points, objectives=both))
    assert "cost over time; joined: no other point beats these" in check(page).text


def test_a_hostile_name_is_text_and_what_is_shown_is_ranked(comparison: Comparison) -> None:
    more: dict[str, Any] = dict.fromkeys(("workload", "workload_template", "reference_source"), HOSTILE)
    more |= {"notes": (HOSTILE,), "algorithms": {HOSTILE: HOSTILE}, "breakdown": {HOSTILE: 1.0}}
    more |= {"colours": {HOSTILE: '"><script>alert(1)</script>'}}
    more |= {"tiers": (TierLoad(HOSTILE, 1, 1.0, 0.1, 0.2, HOSTILE, {HOSTILE: 1.0}),)}
    rows = [evolve(on(row, f"{row.fabric}{HOSTILE}"), **more) for row in swept(comparison).rows]
    found = {"versions": {HOSTILE: HOSTILE}, "files": [], "npu": HOSTILE}
    made: dict[str, Any] = {"failures": (Failure(HOSTILE, HOSTILE, HOSTILE, False),)}
    made["provenance"] = {"cells": [found for _ in rows]}
    hostile = evolve(comparison, title=HOSTILE, rows=tuple(rows), **made)
    page = HtmlExporter(command=HOSTILE).export(hostile)
    assert "\x1b" not in page
    assert "alert" in "".join(check(page).texts)
    page = HtmlExporter(sort="-time", best=2).export(swept(comparison))
    assert check(page).text.count("the 2 best of 7 cells by time") == 1
    with pytest.raises(UnknownNameError):
        HtmlExporter(sort="siez").export(swept(comparison))


def test_what_cells_have_in_common_is_there_once() -> None:
    section = provenance([(name, {"npu": {"peak": 1}, "topology": {"name": name}}) for name in ("a", "b")])
    summaries = [part.summary for part in section.parts if isinstance(part, Details)]
    assert summaries == ["npu", "topology (2 different ones)"]
