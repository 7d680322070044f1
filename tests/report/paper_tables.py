"""Reads the numbers of the paper's tables out of its LaTeX; used to check `targets.csv` cell by cell where the paper is at hand."""

import re
from pathlib import Path

LABELS = {
    "tab:short": "table_short", "tab:long": "table_long", "tab:ablation": "ablation", "tab:offline": "table_offline",
    "tab:short2": "standardization", "tab:long2": "standardization",
}  # fmt: skip
NUMBER = re.compile(r"(\d+\.\d+)\}?\s*(?:\\pm\s*\{?(\d+\.\d+))?")


def cells_of(line: str) -> list[tuple[str, str] | None]:
    """Return (mean, half-width) for each cell of a row after its label, None for a dash."""
    plain = re.sub(r"\\(?:textbf|boldsymbol|underline|mathbf)\s*", "", line.split(r"\\")[0])
    found: list[tuple[str, str] | None] = []
    for cell in plain.split("&")[1:]:
        match = NUMBER.search(cell.replace("{", "").replace("$", ""))
        found.append((match[1], match[2] or "") if match else None)
    return found


def label_of(line: str) -> str:
    """Return a row's label as ours are spelt."""
    label = re.sub(r"[${}\\]|textbf", "", line.split("&")[0]).replace("(ours)", "").strip()
    return label.replace("PBVF", "PVBF")


def tables(path: Path) -> dict[str, list[tuple[str, list[tuple[str, str] | None]]]]:
    """Return each table's rows, in the paper's order, keyed by our name of the table."""
    text = path.read_text(encoding="utf-8")
    found: dict[str, list[tuple[str, list[tuple[str, str] | None]]]] = {}
    for block in re.findall(r"\\begin\{table\}.*?\\end\{table\}", text, re.DOTALL):
        name = LABELS[re.search(r"\\label\{(tab:\w+)\}", block)[1]]  # type: ignore[index]
        joined = re.sub(r"\s*\n\s*(?=\\\\)", " ", block)
        lines = [line.strip() for line in joined.splitlines() if "&" in line and re.search(r"\d", line)]
        rows = [(label_of(line), cells_of(line)) for line in lines if "MS=" not in line and "MS =" not in line]
        found.setdefault(name, []).extend(rows)
    return found
