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
SPEED = ("emo/mle", "emo/emoloss", "mle/torch_bf16", "mle/torch_float32")
MEMORY = ("emo/emoloss", "mle/torch_bf16", "mle/torch_float32")
STEP = ("emo/trl_mle", "emo/mle", "own_mle/mle", "own_emo/emo")
GPU_SPEED = ("emo/liger", "emo/emoloss")
GPU_MEMORY = ("emo/liger", "emo_2048/liger", "emo/emoloss")
GPU_STEP = ("emo/trl_mle", "emo/trl_liger")
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


def results(benchmark: str, gpu: bool) -> dict[str, Any]:
    """The newest results file of a benchmark on a GPU, or on a CPU."""
    found = [json.loads(path.read_text()) for path in sorted(RESULTS.glob(f"{benchmark}-*.json"))]
    found = [content for content in found if (content["device"] != "cpu") == gpu]
    return max(found, key=lambda content: content["finished"])


def by_shape(content: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the three shapes, in the shapes' order."""
    rows = {(row["vocabulary"], row["hidden"]): row for row in content["rows"]}
    return [rows[shape] for shape in SHAPES if shape in rows]


def _shape(row: dict[str, Any]) -> str:
    return f"({row['vocabulary']:,}, {row['hidden']:,})"


def _line(measure: str, cells: list[str]) -> str:
    return f"| {measure} | {' | '.join(cells)} |"


def _between(pair: str) -> str:
    return " / ".join(NAMES[name] for name in pair.split("/"))


def _ratio(row: dict[str, Any], pair: str) -> str:
    """A measured ratio: of times the median over rounds."""
    found = row["ratios"].get(pair)
    found = found["median"] if isinstance(found, dict) else found
    return "not measured" if found is None else f"{found:.3f}"


def _machine(content: dict[str, Any]) -> str:
    """What was measured where, the head of a table."""
    machine = content["machine"]
    threads = f"{content['threads']} thread{'s' * (content['threads'] > 1)}"
    where = ", ".join(machine["gpus"]) or f"{machine['processor']}, {threads}"
    where += ", CPU time on a shared machine" if content.get("clock") == "cpu" else ""
    return f"{where}, torch {content['versions']['torch']}, {content['finished'][:10]}"


def table() -> list[str]:
    """The lines of the tables, one for each machine: a row per ratio, with a column per shape."""
    speed, memory, step = (results(name, gpu=False) for name in ("objective_speed", "memory", "step_speed"))
    shapes = [_shape(row) for row in by_shape(speed)]
    timed, sized = by_shape(speed), by_shape(memory)
    lines = [_line(_machine(speed), shapes), "|---" * (len(shapes) + 1) + "|"]
    lines += [_line(f"time, {_between(pair)}", [_ratio(row, pair) for row in timed]) for pair in SPEED]
    for name in timed[0]["floor_seconds"]:
        cells = [f"{row['seconds'][name] / row['floor_seconds'][name]:.2f}" for row in timed]
        lines.append(_line(f"time, {NAMES[name]} / its floor", cells))
    lines += [_line(f"extra peak memory, {_between(pair)}", [_ratio(row, pair) for row in sized]) for pair in MEMORY]
    cells = [f"{row['emo_growth']['ratio']:.3f}" for row in sized]
    lines.append(_line("working memory of EMO, 32,768 / 2,048 tokens", cells))
    lines += ["", f"| {_machine(step)} | LoRA step of SmolLM2-135M, 8 real rows |", "|---|---|"]
    lines += [_line(f"time, {_between(pair)}", [_ratio(step["rows"][0], pair)]) for pair in STEP]
    return lines + _gpu_lines()


def _gpu_lines() -> list[str]:
    """The table of the GPU."""
    speed, memory, step = (results(name, gpu=True) for name in ("objective_speed", "memory", "step_speed"))
    timed, sized = by_shape(speed), by_shape(memory)
    shapes = [_shape(row) for row in timed]
    lines = ["", _line(_machine(speed), shapes), "|---" * (len(shapes) + 1) + "|"]
    lines += [_line(f"time, {_between(pair)}", [_ratio(row, pair) for row in timed]) for pair in GPU_SPEED]
    measured = {_shape(row): row for row in sized}
    for pair in GPU_MEMORY:
        cells = [_ratio(measured[shape], pair) if shape in measured else "not measured" for shape in shapes]
        lines.append(_line(f"extra peak memory, {_between(pair)}", cells))
    what = "LoRA step of a model of Llama-3.2-1B's shape"
    lines += ["", f"| {_machine(step)} | {what} |", "|---|---|"]
    return lines + [_line(f"time, {_between(pair)}", [_ratio(step["rows"][0], pair)]) for pair in GPU_STEP]


def page(text: str) -> str:
    """The page with updated tables."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return "\n".join([before + BEGIN, "", *table(), "", END + after])


def plot(path: Path) -> None:
    """Seconds a loss and gradient take and megabytes they need, as multiples of this project's cross-entropy."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    speed, memory = results("objective_speed", gpu=False), results("memory", gpu=False)
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
