"""The page: structure, escaping, no network, and how a browser shows it."""

import html
import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
from made_rows import experiment, row, three_seeds, variation

from mammoth.report.claims import Claim, Outcome
from mammoth.report.page import Section, experiment_section, page, write_page
from mammoth.report.tables import Entry, Table
from mammoth.report.targets import Target
from mammoth.report.verdicts import verdict

HOSTILE = "<script>alert('x')</script> & \"q\" $y$"
VOID = {"meta", "br", "img", "link", "input", "hr"}


class Reader(HTMLParser):
    """Checks that tags balance; keeps ids, addresses, and each table as lists of cells' words."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.addresses, self.tables, self.tags = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        self.addresses += [value for name, value in attrs if name in ("href", "src", "xlink:href", "action", "data", "srcset")]
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes another"

    def handle_data(self, data):
        if "td" in self.open or "th" in self.open:
            self.tables[-1][-1][-1] += data


def outcome(text="PVBF is above ER", said="holds"):
    """A judged claim."""
    return Outcome(Claim("c", text, "+3.3", ()), "+2.1 points", 3, 0.012, said)


def beside_the_paper():
    """A table with one entry that matches the paper's and carries a note, one that was not run, and the best marked."""
    rows = three_seeds("PVBF", "MS=20")
    entries = [
        each for _, line in experiment_section(experiment("PVBF", columns=("MS=20",)), rows).tables[0].lines for each in line
    ]
    paper = Target(62.5, 1.0, "62.5 ± 1.0", "run", "a misprint")
    judged = Entry(entries[0].ours, paper, verdict(entries[0].ours, paper, 3), rank=1)
    missing = Entry(None, paper._replace(note=""), "not run (0/3)")
    return Table(
        "T", "class_il", [("MS=20", "ACC"), ("MS=20", "FR")], [("PVBF", [judged, entries[1]]), ("ER", [missing, missing])], "foot"
    )


# -- structure -------------------------------------------------------------------------------------------------------------


def test_every_cell_of_a_table_is_there():
    """Two header rows for columns and measures; ours, n, the paper's, its note, the verdict."""
    read = Reader(page([Section("T", [beside_the_paper()], three_seeds("PVBF", "MS=20"))]))
    assert read.tables[0] == [
        ["", "MS=20"],
        ["Method", "ACC", "FR"],
        ["PVBF", "62.00 ± 4.97n = 3paper 62.5 ± 1.01match", "36.00 ± 9.94n = 3"],
        ["ER", "paper 62.5 ± 1.0not run (0/3)", "paper 62.5 ± 1.0not run (0/3)"],
    ]


def test_every_number_leads_to_its_runs():
    """Each link has its target; the runs there have id, seed, commit, digest, versions, device, threads, time, data and values."""
    section = experiment_section(experiment("ER", "PVBF", columns=("a", "b")), [*three_seeds("ER", "a"), *three_seeds("PVBF", "b")])
    read = Reader(page([section], [outcome()]))
    links = [attrs["href"] for tag, attrs in read.tags if tag == "a"]
    assert all(link[0] == "#" and link[1:] in read.ids for link in links)
    assert links.count("#s1-runs1") == links.count("#s1-runs2") == 2
    head, group, *runs = read.tables[-1][:5]
    assert head[:5] == ["seed", "Class-IL ACC", "Class-IL FR", "run id", "commit"]
    assert group == ["ER, a"]
    assert runs[1] == [
        "1", "62.00", "36.00", "run-ER-a-1", "abc123 + changes", "d1", "3.11", "2.9", "cpu: test", "1", "36.0", "seq-digits",
        "original", "f00d", "2025-01-01T00:00:00",
    ]  # fmt: skip


def test_a_single_column_has_one_header_row():
    """An experiment without columns."""
    read = Reader(page([experiment_section(experiment("ER"), three_seeds("ER"), ("class_il", "task_il"))]))
    assert read.tables[0][:2] == [["Method", "ACC", "FR"], ["ER", "62.00 ± 4.97n = 3", "36.00 ± 9.94n = 3"]]
    assert [tag for tag, _ in read.tags].count("h3") == 2


def test_the_headline_counts_runs_once():
    """The same run in two sections is one run; hours are theirs; verdicts and claims are tallied."""
    sections = [
        Section("T", [beside_the_paper()], three_seeds("PVBF", "MS=20")),
        Section("again", rows=three_seeds("PVBF", "MS=20")),
    ]
    text = page([*sections, Section("none")], [outcome(), outcome(said="undecided (3)")])
    assert "<dt>runs</dt><dd>3</dd>" in text
    assert "<dt>hours of runs</dt><dd>0.0</dd>" in text
    assert "<dd>2 of 3</dd>" in text
    assert '<span class="badge match">match 1</span>' in text
    assert '<span class="badge undecided">undecided 1</span>' in text


def test_claims_are_a_table():
    """Text, the paper's, ours, n, p, verdict."""
    read = Reader(page([], [outcome()]))
    assert read.tables[0][1] == ["PVBF is above ER", "+3.3", "+2.1 points", "3", "0.012", "holds"]


def test_figures_are_inline():
    """Curves and variations as SVG with words for those who do not see them; those of the appendix are folded; ids are unique."""
    rows = three_seeds("ER")
    read = Reader(page([experiment_section(experiment("ER"), rows, variations=[variation("ER", tasks=1)])]))
    pictures = [attrs for tag, attrs in read.tags if tag == "svg" and attrs.get("role") == "img"]
    assert len(pictures) == 1 + 6
    assert pictures[1]["aria-label"].startswith("ER (n = 1): how many parameters")
    assert len([attrs for tag, attrs in read.tags if tag == "details" and attrs.get("class") == "figure"]) == 4
    assert len(read.ids) == len(set(read.ids))


def test_without_any_run():
    """Nothing at all, and an experiment that has not begun: both say so, with the command."""
    assert "No runs yet" in page([])
    read = Reader(page([experiment_section(experiment("ER", columns=("a", "b")), [])]))
    assert read.tables[0][2] == ["ER", *["not run (0/3)"] * 4]
    assert "python -m mammoth.sweep run experiments/made.yaml" in page([experiment_section(experiment("ER"), [])])


def test_nothing_comes_from_elsewhere():
    """No address outside the page, no address of any kind but anchors, and a policy that forbids the rest."""
    section = experiment_section(experiment("ER"), three_seeds("ER"), variations=[variation("ER", tasks=1)])
    text = page([section], [outcome()])
    assert all(address.startswith("#") for address in Reader(text).addresses)
    assert not re.search(r"https?://|@import|//[a-z]+\.", text)
    assert all(not target.startswith(("'", '"', "h", "/")) for target in re.findall(r"url\((.)", text))
    assert "default-src 'none'" in text


def test_hostile_labels_stay_text():
    """Rows, columns, titles, claims and provenance are escaped wherever they come."""
    rows = [row(HOSTILE, 0, [[50.0], [40.0, 60.0]], HOSTILE, device=HOSTILE, run_id=HOSTILE)]
    section = experiment_section(
        experiment(HOSTILE, columns=(HOSTILE,), title=HOSTILE), rows, variations=[variation(HOSTILE, tasks=1)]
    )
    text = page([section], [outcome(HOSTILE, HOSTILE)], title=HOSTILE, lead=HOSTILE)
    read = Reader(text)
    assert text.count("<script") == 1
    assert [tag for tag, _ in read.tags].count("script") == 1
    assert read.tables[0][2][0] == HOSTILE
    assert read.tables[-1][2].count(HOSTILE) == 2
    assert all(not name.startswith("on") for _, attrs in read.tags for name in attrs)


def test_the_page_is_a_file(tmp_path):
    """Written whole, in a new folder, and the same each time."""
    sections = [experiment_section(experiment("ER"), three_seeds("ER"))]
    path = write_page(sections, tmp_path / "new" / "page.html", [outcome()])
    assert path.read_text(encoding="utf-8") == page(sections, [outcome()])


# -- in a browser ----------------------------------------------------------------------------------------------------------

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip
PROBE = """<script>addEventListener("load", () => {
  const said = {}, all = [...document.querySelectorAll("body *")], names = () => [...document.querySelectorAll("table")[0]
    .querySelectorAll("tbody th")].map((cell) => cell.textContent).join("");
  said.width = innerWidth;
  said.overflow = all.filter((part) => part.getBoundingClientRect().right > innerWidth + 1 && !part.closest(".scroll, svg"))
    .map((part) => part.outerHTML.slice(0, 80));
  said.page = document.documentElement.scrollWidth;
  said.scrolls = [...document.querySelectorAll(".scroll")].some((box) => box.scrollWidth > box.clientWidth + 1);
  const button = document.querySelectorAll("button.sort")[1];
  button.focus();
  said.focus = document.activeElement === button;
  said.orders = [names(), ...[1, 2, 3].map(() => { button.click(); return names() + button.closest("th").ariaSort; })];
  said.folded = !document.querySelector("#runs details").open;
  location.hash = document.querySelector("a.value").hash;
  reveal();
  said.revealed = document.querySelector("#runs details").open;
  said.resources = performance.getEntriesByType("resource").length;
  parent.document.body.append(Object.assign(parent.document.createElement("pre"), {textContent: JSON.stringify(said)}));
});</script>"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A page with wide tables, long labels and figures."""
    columns = ("MS=20", "MS=100", "MS=500")
    rows = [
        each
        for column in columns
        for label, shift in (("ER", 0), ("PVBF w/o D-CWR", 9), ("AR1", -9))
        for each in three_seeds(label, column, shift)
    ]
    made = experiment(
        "ER", "PVBF w/o D-CWR", "AR1", "not run", columns=columns, title="A long title of an experiment, with (brackets)"
    )
    sections = [
        experiment_section(made, rows),
        Section("Variation", drawings=experiment_section(made, [], variations=[variation("ER", tasks=2)]).drawings),
    ]
    return write_page(sections, tmp_path_factory.mktemp("page") / "page.html", [outcome("A claim of many words, " * 4)])


def browse(folder, address, *flags):
    """Run Chromium once; returns what it prints."""
    if CHROMIUM is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", *flags, address.as_uri()]
    quiet = {**os.environ, "DBUS_SESSION_BUS_ADDRESS": "disabled:"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=quiet).stdout


def test_a_browser_shows_it_on_phone_and_desktop(shown, tmp_path):
    """At 390 and 1280 pixels: nothing sticks out, wide tables scroll in their boxes, headers sort, numbers lead to their runs."""
    probed = html.escape(shown.read_text(encoding="utf-8").replace("</body>", PROBE + "</body>"))
    frames = "".join(f'<iframe style="width:{width}px;height:900px;border:0" srcdoc="{probed}"></iframe>' for width in (390, 1280))
    outer = tmp_path / "frames.html"
    outer.write_text(f"<!doctype html><meta charset=utf-8><body>{frames}", encoding="utf-8")
    said = re.findall(r"<pre>(.*?)</pre>", browse(tmp_path, outer, "--dump-dom", "--window-size=1400,2000"))
    phone, desk = sorted((json.loads(html.unescape(each)) for each in said), key=lambda each: each["width"])
    assert (phone["width"], desk["width"]) == (390, 1280)
    assert phone["scrolls"]
    for each in (phone, desk):
        assert each["overflow"] == []
        assert each["page"] <= each["width"]
        assert each["focus"]
        assert each["folded"]
        assert each["revealed"]
        assert each["resources"] == 0
        assert each["orders"] == [
            "ERPVBF w/o D-CWRAR1not run",
            "PVBF w/o D-CWRERAR1not rundescending",
            "AR1ERPVBF w/o D-CWRnot runascending",
            "ERPVBF w/o D-CWRAR1not runnone",
        ]


@pytest.mark.parametrize("width", [390, 1280])
def test_its_picture_is_not_empty(shown, tmp_path, width):
    """A screenshot of a phone's width and one of a desktop's: of that size, with text, tables and colours."""
    from matplotlib.image import imread

    browse(tmp_path, shown, f"--screenshot={tmp_path / 'shot.png'}", f"--window-size={width},2000")
    pixels = imread(tmp_path / "shot.png")[:, :, :3]
    assert pixels.shape[:2] == (2000, width)
    colours = {tuple(pixel) for pixel in (pixels[::3, ::3].reshape(-1, 3) * 15).round().astype(int).tolist()}
    assert len(colours) > 30
    assert (pixels.min(axis=2) < 0.9).any(axis=1).mean() > 0.4  # of the lines of pixels
