"""The table of docs/experiments.md: what each config takes on machines that it was not run on.

    python -m benchmarks.plans                 # writes the table into the page
    python -m benchmarks.plans --print

Arithmetic alone (instruct/phases/costs.py), from data/plans; a test compares the page with it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from instruct.config import load_config, packaged_configs
from instruct.phases.costs import machine
from instruct.phases.plan import make_plan

PAGE = Path(__file__).resolve().parents[1] / "docs" / "experiments.md"
BEGIN, END = "<!-- python -m benchmarks.plans -->", "<!-- end of the plans -->"
MACHINES = ("t4-16gb", "rtx4090-24gb", "a100-80gb", "8xh100")
# Their recipes make the model and the rows first, and print the plan.
MADE_BY_RECIPE = ("instruction_smollm2", "oracle", "oracle_smollm2", "small_model")


def planned_configs() -> list[str]:
    """The packaged configs for a GPU whose model and rows are known before a recipe has made them."""
    names = [name for name, file in packaged_configs().items() if file.stem != "base" and name not in MADE_BY_RECIPE]
    return [name for name in names if load_config(name).needs_gpu]


def cell(config: str, name: str) -> str:
    """The hours and dollars of a config on a machine, or the memory that is lacking."""
    planned = make_plan(load_config(config), machine(name))
    if planned.too_large:
        return planned.total().removeprefix("does not fit: ")
    return "weeks" if planned.hours > 24 * 14 else planned.total()


def table() -> str:
    """The table in Markdown; configs that take the same share a row."""
    lines = [f"| config | {' | '.join(f'`{name}`' for name in MACHINES)} |", "|---" * (len(MACHINES) + 1) + "|"]
    rows: dict[str, list[str]] = {}
    for config in planned_configs():
        cells = " | ".join(cell(config, name) for name in MACHINES)
        rows.setdefault(cells, []).append(f"`{config}`")
    for cells, configs in rows.items():
        lines.append(f"| {', '.join(configs)} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", dest="only_print", help="print the table and change nothing")
    made = table()
    if parser.parse_args().only_print:
        print(made)
        return
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
