"""The table and plot of docs/performance.md, from the files in benchmarks/results.

python -m benchmarks.summary
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, ROOT, SHAPES

PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- made by python -m benchmarks.summary -->", "<!-- end -->"
# The targets: upper limits of the ratios, for the three shapes in their order.
SPEED_AIMS = {
    "emo/mle": (1.4, 1.15, 1.3),
    "emo/emoloss": (0.2, 0.3, 0.3),
    "mle/torch_bf16": (0.7, 1.1, 0.7),
    "mle/torch_float32": (0.35, 0.35, 0.35),
}
MEMORY_AIMS = {"emo/emoloss": 0.15, "mle/torch_bf16": 0.25, "mle/torch_float32": 0.15}
STEP_AIMS = {"emo/trl_mle": 0.65, "emo/mle": 1.10, "own_mle/mle": 1.05, "own_emo/emo": 1.05}
# None: for comparison, without a target.
GPU_SPEED_AIMS = {"emo/liger": 1.15, "emo/emoloss": 0.25}
GPU_MEMORY_AIMS = {"emo/liger": 1.0, "emo_2048/liger": None, "emo/emoloss": 0.05}
GPU_STEP_AIMS = {"emo/trl_mle": 1.0, "emo/trl_liger": 1.05}
GROWTH_AIM = 1.1
NAMES = {
    "emo": "EMO",
    "emo_2048": "EMO in chunks of 2,048 rows",
    "mle": "our cross-entropy",
    "emoloss": "EMOLoss (the authors')",
    "torch_bf16": "torch cross-entropy, bf16 logits",
    "torch_float32": "torch cross-entropy, float32 logits",
    "own_mle": "cross-entropy of a user's own file",
    "own_emo": "EMO of a user's own file",
    "trl_mle": "TRL's cross-entropy",
    "trl_liger": "TRL's, with Liger",
    "liger": "Liger's fused linear cross-entropy",
}


def results(benchmark: str, gpu: bool) -> dict[str, Any] | None:
    """The newest results file of a benchmark on a GPU, or on a CPU."""
    found = [json.loads(path.read_text()) for path in sorted(RESULTS.glob(f"{benchmark}-*.json"))]
    found = [content for content in found if (content["device"] != "cpu") == gpu]
    return max(found, key=lambda content: content["finished"]) if found else None


def by_shape(content: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The rows of the three shapes, in the shapes' order."""
    rows = {(row["vocabulary"], row["hidden"]): row for row in content["rows"]} if content else {}
    return [rows[shape] for shape in SHAPES if shape in rows]


def _shape(row: dict[str, Any]) -> str:
    return f"({row['vocabulary']:,}, {row['hidden']:,})"


def _cell(found: float | None, aim: float | None) -> str:
    """A measured ratio, bold if it reaches its target, else with the target that it misses."""
    if found is None:
        return "not measured"
    if aim is None:
        return f"{found:.3f}"
    return f"**{found:.3f}**" if found <= aim else f"{found:.3f} (target {aim:g})"


def _line(measure: str, cells: list[str]) -> str:
    return f"| {measure} | {' | '.join(cells)} |"


def _between(pair: str) -> str:
    return " / ".join(NAMES[name] for name in pair.split("/"))


def table() -> list[str]:
    """The lines of the tables: a row per ratio with a column per shape, then the whole training steps."""
    speed, memory, step = (results(name, gpu=False) for name in ("objective_speed", "memory", "step_speed"))
    shapes = [f"({vocabulary:,}, {hidden:,})" for vocabulary, hidden in SHAPES]
    lines = [_line("on a CPU", shapes), "|---" * (len(shapes) + 1) + "|"]
    timed, sized = by_shape(speed), by_shape(memory)
    for pair, aims in SPEED_AIMS.items():
        cells = [_cell(row["ratios"][pair]["median"], aim) for row, aim in zip(timed, aims, strict=True)]
        lines.append(_line(f"time, {_between(pair)}", cells))
    for name in timed[0]["floor_seconds"] if timed else ():
        cells = [f"{row['seconds'][name] / row['floor_seconds'][name]:.2f}" for row in timed]
        lines.append(_line(f"time, {NAMES[name]} / its floor", cells))
    for pair, aim in MEMORY_AIMS.items():
        cells = [_cell(row["ratios"][pair], aim) for row in sized]
        lines.append(_line(f"extra peak memory, {_between(pair)}", cells))
    cells = [_cell(row["emo_growth"]["ratio"], GROWTH_AIM) for row in sized]
    lines.append(_line("working memory of EMO, 32,768 / 2,048 tokens", cells))
    lines += ["", "| time of a LoRA step of SmolLM2-135M, 8 real rows, on a CPU | |", "|---|---|"]
    for pair, aim in STEP_AIMS.items():
        value = step["rows"][0]["ratios"].get(pair) if step else None
        lines.append(_line(_between(pair), [_cell(value and value["median"], aim)]))
    return lines + _gpu_lines()


def _gpu_lines() -> list[str]:
    """A table like that of the CPU, once a GPU was measured."""
    speed, memory, step = (results(name, gpu=True) for name in ("objective_speed", "memory", "step_speed"))
    if speed is None and memory is None and step is None:
        return []
    lines = ["", "| on a GPU | ratio |", "|---|---|"]
    for measure, found, aims in (("time", speed, GPU_SPEED_AIMS), ("extra peak memory", memory, GPU_MEMORY_AIMS)):
        for pair, aim in aims.items():
            for row in by_shape(found):
                value = row["ratios"].get(pair)
                value = value["median"] if isinstance(value, dict) else value
                lines.append(_line(f"{measure}, {_between(pair)}, {_shape(row)}", [_cell(value, aim)]))
    for pair, aim in GPU_STEP_AIMS.items():
        value = step["rows"][0]["ratios"][pair]["median"] if step else None
        lines.append(_line(f"a LoRA step of a model of Llama-3.2-1B's shape, {_between(pair)}", [_cell(value, aim)]))
    return lines


def about() -> list[str]:
    """What was measured where, one line per results file."""
    lines = []
    of_objectives = ("memory", "objective_speed", "step_speed")
    for path in sorted(path for name in of_objectives for path in RESULTS.glob(f"{name}-*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        machine, versions = content["machine"], content["versions"]
        where = (
            ", ".join(machine["gpus"])
            or f"{machine['processor']}, {content['threads']} thread{'s' * (content['threads'] > 1)}"
        )
        where += ", CPU time on a shared machine" if content.get("clock") == "cpu" else ""
        lines.append(f"- `{path.name}`: {where}, torch {versions['torch']}, {content['finished'][:10]}")
    return lines


def page(text: str) -> str:
    """The page with an updated table."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return "\n".join([before + BEGIN, "", *table(), "", "Measured in:", "", *about(), "", END + after])


def plot(path: Path) -> None:
    """Seconds a loss and gradient take and megabytes they need, as multiples of this project's cross-entropy."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    speed, memory = results("objective_speed", gpu=False), results("memory", gpu=False)
    if speed is None or memory is None:
        return
    names = ["mle", "emo", "torch_bf16", "torch_float32", "emoloss"]
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for axis, rows, key, title in (
        (axes[0], by_shape(speed), "seconds", "Time, loss and gradient (s)"),
        (axes[1], by_shape(memory), "peak_mib", "Extra peak memory (MiB)"),
    ):
        for index, name in enumerate(names):
            places = [group + (index - 2) * 0.16 for group in range(len(rows))]
            bars = axis.bar(places, [row[key][name] for row in rows], 0.15, label=NAMES[name])
            axis.bar_label(bars, fmt=lambda value: f"{value:.3g}" if value < 100 else f"{value:.0f}", fontsize=6.5)
        axis.set_yscale("log")
        axis.set_xticks(range(len(rows)), [f"V={row['vocabulary']:,}\nd={row['hidden']:,}" for row in rows])
        axis.set_title(title, fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    processor, cores = speed["machine"]["processor"], speed["machine"]["cores"]
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    figure.suptitle(f"2,048 response tokens, bfloat16, frozen head; {processor}, {cores} cores", fontsize=10)
    figure.savefig(path, dpi=120, metadata={"Software": None})


def main() -> None:
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    plot(PAGE.with_suffix(".png"))
    print(f"written: {PAGE.relative_to(ROOT)}, {PAGE.with_suffix('.png').relative_to(ROOT)}")


if __name__ == "__main__":
    main()
