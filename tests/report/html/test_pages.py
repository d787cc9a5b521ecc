import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from attrs import evolve
from showing import of, on

import fredfw
from fredfw.cli import main
from fredfw.cli.exports import Exports
from fredfw.errors import InputError, UnknownNameError
from fredfw.experiment.results import Comparison, Failure, RunResult, TierLoad
from fredfw.experiment.study.results import Objective, StudyResult
from fredfw.plugin.manager import PluginManager, Switches
from fredfw.report.charts import charts
from fredfw.report.exporters import HtmlExporter
from fredfw.report.html import svg
from fredfw.report.html.page import rendered
from fredfw.report.pages import provenance
from fredfw.report.pictures import Axis, Bar, Bars, Dot, Dots, HeatMap
from fredfw.report.shown import GAP, Details, Heading, Line, Page, Said, Section, Span, Table

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


def test_without_jinja2_it_is_refused_before_anything_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    framework = fredfw.Framework(PluginManager.discover(Switches(strict=True)))
    assert "html" in framework.plugins.exporters.names()
    context = click.Context(main)
    context.params["exports"] = [("html", str(tmp_path / "report.html"))]
    with pytest.raises(InputError, match=r"pip install 'fredfw\[report\]'"):
        Exports(context, framework, ["run"], (), ())


def test_fifty_cells_are_less_than_two_megabytes() -> None:
    framework = fredfw.Framework()
    rates = [f"{rate} GB/s" for rate in (1, 2, 4, 8, 16)]
    sweep = {"npus": [4, 8], "link_bandwidth": rates}
    ring = {"topology": "switch", "sweep": sweep, "collectives": {"default": "ring"}}
    size = {"workload": "microbenchmark", "sweep": {"size": [f"{n} MB" for n in range(1, 6)]}}
    tables = {"fabrics": {"ring {npus} {link_bandwidth}": ring}, "workloads": {"{size}": size}}
    comparison = framework.compare(framework.load_experiment(tables))
    assert len(comparison.rows) == 50
    page = HtmlExporter(command="fredfw compare x.toml").export(comparison)
    check(page)
    assert len(page.encode()) < 2e6
    assert all(row.tiers for row in comparison.rows)


def test_a_page_has_the_parts_of_a_report_and_what_cells_have_in_common_once() -> None:
    rows: list[tuple[Said, ...]] = [("a", Span("1.5", "bold good"), "", ""), ("b", "-", "", "no")]
    report = [
        Heading((Span("Title"), Span(" (dim)", "dim"))),
        Line("one line"),
        GAP,
        Line("first"),
        Line("second"),
        Table(("name", "the\nvalue", "", "reason"), rows, right=(1,)),
    ]
    page = rendered(Page("", (), [Section("name", "", report)]))
    check(page)
    for part in (
        '<h3>Title<span class="dim"> (dim)</span></h3>\n<p>one line</p>\n<ul>\n<li>first</li>\n<li>second</li>\n</ul>',
        '<th scope="col">name</th><th scope="col" class="number">the value</th>',
        '<th scope="row">a</th><td class="number"><span class="bold good">1.5</span></td><td></td><td></td>',
        '<th scope="row">b</th><td colspan="3">no</td>',  # beside what it is of, where nothing else is said
    ):
        assert part in page
    section = provenance([(name, {"npu": {"peak": 1}, "topology": {"name": name}}) for name in ("a", "b")])
    summaries = [part.summary for part in section.parts if isinstance(part, Details)]
    assert summaries == ["npu", "topology (2 different ones)"]


@pytest.mark.parametrize(
    ("low", "high", "log", "expected"),
    [
        (0.0, 10.0, False, [0, 2, 4, 6, 8, 10]),
        (0.0, 0.07, False, [0, 0.02, 0.04, 0.06]),
        (3.0, 3.0, False, [3]),
        (1.0, 100.0, True, [1, 2, 5, 10, 20, 50, 100]),
        (1e-9, 1.0, True, [1e-9, 1e-7, 1e-5, 1e-3, 1e-1]),
        (3.0, 4.0, True, [3, 4]),
    ],
)
def test_ticks_are_round(low: float, high: float, *, log: bool, expected: list[float]) -> None:
    assert svg._ticks(low, high, log=log) == pytest.approx(expected)


def test_pictures_are_to_scale_and_those_of_two_fields_maps(comparison: Comparison) -> None:
    bars = [Bar("a", {"x": 1.0, "y": 3.0}), Bar("b", {"x": 2.0})]
    text = svg.drawn(Bars("", bars, [{"x": "#111111", "y": "#222222"}]))
    widths = [float(one) for one in re.findall(r'<rect [^>]*width="([\d.]+)"', text)]
    assert widths[1] == pytest.approx(3 * widths[0], abs=0.02)
    assert widths[2] == pytest.approx(2 * widths[0], abs=0.02)
    axis = Axis("s", log=True)
    dots = [Dot(1.0, 1.0, "a"), Dot(100.0, 100.0, "b"), Dot(10.0, 1.0, "c")]
    text = svg.drawn(Dots("", axis, axis, dots, diagonal=True))
    places = np.array([[float(x), float(y)] for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', text)])
    ends = " ".join(rf'{one}="([\d.]+)"' for one in ("x1", "y1", "x2", "y2"))
    (line,) = re.findall(f'<line {ends} stroke-width="1" stroke-dash', text)
    assert [float(one) for one in line] == pytest.approx([*places[0], *places[1]], abs=0.02)
    first = comparison.rows[0]
    pairs = product((1, 2, 4, 8), repeat=2)
    (picture,) = charts([evolve(of(first, "{mp} {pp}", mp=mp, pp=pp), seconds=mp * pp) for mp, pp in pairs])
    assert isinstance(picture, HeatMap)
    assert svg.drawn(picture).count("<rect") == 16
    assert picture.caption.startswith("iteration time; the lighter the better")


BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((found for name in BROWSERS if (found := shutil.which(name))), None)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="neither chromium nor google-chrome is installed")
def test_a_browser_opens_it_without_error_or_request(comparison: Comparison, run: RunResult, tmp_path: Path) -> None:
    # That errors and requests are found is shown by a page that has both.
    (tmp_path / "bad.html").write_text("<script>nothing()</script><img src=http://127.0.0.1:9/x>")
    errors, requests = opened(tmp_path / "bad.html")
    assert errors
    assert requests == {"http://127.0.0.1:9/x"}
    for number, result in enumerate((swept(comparison), run)):
        path = tmp_path / f"{number}.html"
        path.write_text(HtmlExporter(command="fredfw").export(result))
        assert opened(path) == ([], set())


def opened(path: Path) -> tuple[list[str], set[str]]:
    """Return what a browser writes on its console when it opens ``path``, and what the page asks a network for."""
    log = path.with_suffix(".log")
    options = ("headless", "no-sandbox", "disable-gpu", "disable-background-networking", "no-first-run", "dump-dom")
    places = ("enable-logging=stderr", f"user-data-dir={path.with_suffix('.profile')}", f"log-net-log={log}")
    command = [str(CHROMIUM), *(f"--{option}" for option in (*options, *places)), path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "<html" in done.stdout
    found = (event.get("params", {}) for event in json.loads(log.read_text())["events"])
    # What the browser asks for by itself, such as updates, has an initiator that is not an origin.
    asked = [one for one in found if one.get("initiator", "not an origin") != "not an origin"]
    urls = {one["url"] for one in asked if not one["url"].startswith("file:")}
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line], urls
