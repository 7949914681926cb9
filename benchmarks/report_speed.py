"""How long a report takes: of 805 pairs, of 100,000 verdicts, its help, its page in a browser; and `instruct compare`.

    python -m benchmarks.report_speed

Each row is a process from its start, as a user would call it: seconds, CPU seconds, and peak memory in GiB (at least
that of this process, which starts it); medians over the rounds. `pairs` and `verdicts` start with a run without a
report, so that all statistics with 10,000 bootstrap resamples, all figures and the page are computed; `pairs again`
repeats the command. The answers are AlpacaEval's if `INSTRUCT_SHARED_DATA` has them; verdicts are random. `page` is the
time from navigation to the first filtered pair in Chromium, with the file on disk. `compare` reads the samples of two
systems as lm-eval writes them (2 to 3 KB a row).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness import command, write_results
from benchmarks.judge_speed import BASELINE, CANDIDATE, write_answers

JUDGES = ("autoj", "pandalm")
PAIRS, VERDICTS, LOGGED, TASKS = 805, 100_000, 14_042, 57
# Seconds; GiB.
AIMS = {"help": 0.5, "pairs": 5.0, "pairs again": 5.0, "verdicts": 60.0, "page": 1.0}
MEMORY_AIM = 2.0


def make_run(folder: Path, pairs: int, judges: tuple[str, ...]) -> str:
    """Make a run whose pairs each judge has compared in both orders; returns the source of the answers."""
    from instruct.base.files import sha256_of
    from instruct.base.replies import Completion
    from instruct.judging.comparison import ComparisonKey
    from instruct.judging.store import Judgment, JudgmentStore
    from instruct.run.directory import RunDirectory

    run = RunDirectory(folder)
    run.start({"name": folder.name, "systems": {}, "comparisons": []})
    run.outputs.mkdir()
    source = write_answers(run.outputs, min(pairs, PAIRS))
    names = (CANDIDATE, BASELINE)
    if pairs > PAIRS:  # the same answers to as many prompts
        for name in names:
            path = run.outputs / f"{name}.json"
            rows = json.loads(path.read_text(encoding="utf-8"))
            more = [
                {**rows[number % len(rows)], "instruction": f"{number}: {rows[number % len(rows)]['instruction']}"}
                for number in range(pairs)
            ]
            path.write_text(json.dumps(more), encoding="utf-8")
    prompts = json.loads((run.outputs / f"{CANDIDATE}.json").read_text(encoding="utf-8"))
    answers = {name: sha256_of(run.outputs / f"{name}.json") for name in names}
    draw = random.Random(0)
    for judge in judges:
        judgments = [
            Judgment(
                judge, *names, number, row["instruction"], row["dataset"], position, f"{judge} {number} {position}",
                draw.choices(["first", "second", "tie", "unparsed"], [45, 40, 14, 1])[0],
            )
            for number, row in enumerate(prompts)
            for position in ("first", "second")
        ]  # fmt: skip
        reply = "Response 1 answers the question in full, and Response 2 leaves out what matters. " * 8
        with JudgmentStore(run.store) as store:
            store.add_replies(judge, [(judgment.key, Completion(reply), 0.0) for judgment in judgments])
            store.add_judgments(judgments)
        comparison = ComparisonKey(judge, *names)
        inputs = {"answers": answers, "judge": {"card": judge}}
        with run.step(comparison.step(), inputs, comparison=comparison._asdict()):
            pass
    return source


def write_logs(folder: Path, rows: int, tasks: int) -> None:
    """The samples of one system, spread over tasks."""
    chance = random.Random(folder.name)
    folder.mkdir()
    for task in range(tasks):
        with (folder / f"samples_task{task}_2026-01-01T00-00-00.000000.jsonl").open("w", encoding="utf-8") as file:
            for number in range(rows * task // tasks, rows * (task + 1) // tasks):
                question = f"Question {number} " + "of some length " * 20
                row = {
                    "doc_id": number,
                    "doc": {"question": question, "choices": ["one", "two", "three", "four"], "answer": 1},
                    "target": "1",
                    "arguments": {f"gen_args_{k}": {"arg_0": question * 2, "arg_1": f" {k}"} for k in range(4)},
                    "resps": [[["-1.0", "False"]]] * 4,
                    "filtered_resps": [["-1.0", "False"]] * 4,
                    "filter": "none",
                    "metrics": ["acc"],
                    "doc_hash": f"{number:064x}",
                    "prompt_hash": f"{number:064x}",
                    "target_hash": f"{1:064x}",
                    "acc": float(chance.random() < 0.5),
                }
                file.write(json.dumps(row) + "\n")


def page_seconds(page: Path, rounds: int) -> dict[str, float] | None:
    """Seconds from navigation to the first filtered pair; None without Chromium or playwright."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if chromium is None:
        return None
    found = []
    with sync_playwright() as playwright:
        flags = ["--headless", "--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        for _ in range(rounds + 1):
            tab = browser.new_context().new_page()
            begun = time.perf_counter()
            tab.goto(page.as_uri())
            tab.wait_for_selector("#list button")
            tab.select_option("#outcome", "loss")
            tab.wait_for_selector("#pair .badge.loss")
            found.append(time.perf_counter() - begun)
            tab.context.close()
        browser.close()
    return {"seconds": statistics.median(found[1:]), "megabytes": page.stat().st_size / 1e6}


def median(found: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(each[name] for each in found), 3) for name in found[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--verdicts", type=int, default=VERDICTS, help="of one judge, two a pair")
    parser.add_argument("--logged", type=int, default=LOGGED, help="rows of each system that are compared")
    parser.add_argument("--no-write", action="store_true", help="leave benchmarks/results as it is")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []

    def add(name: str, found: dict[str, float], **about: Any) -> None:
        rows.append({"row": name, **about, **found, "aim_seconds": AIMS.get(name)})
        print(f"{name:12} " + ", ".join(f"{key} {value}" for key, value in rows[-1].items() if key != "row"))

    command("report", "--help")  # what is read from disk for the first time is not what is measured
    add("help", median([command("report", "--help") for _ in range(arguments.rounds)]))
    with tempfile.TemporaryDirectory() as temporary:
        folder, first, again = Path(temporary), [], []
        for number in range(arguments.rounds):
            run = folder / f"pairs-{number}"
            source = make_run(run, arguments.pairs, JUDGES)
            first.append(command("report", str(run)))
            again.append(command("report", str(run)))
        about = {"pairs": arguments.pairs, "judges": len(JUDGES), "verdicts": 2 * len(JUDGES) * arguments.pairs}
        add("pairs", median(first), **about)
        add("pairs again", median(again), **about)
        page = page_seconds(run / "report" / "report.html", arguments.rounds)
        if page:
            add("page", median([page]), pairs=arguments.pairs)
        else:
            print("page         not measured: Chromium or playwright is not here")
        large = folder / "verdicts"
        make_run(large, arguments.verdicts // 2, JUDGES[:1])
        add("verdicts", command("report", str(large)), verdicts=arguments.verdicts, aim_gib=MEMORY_AIM)
        logs = [folder / name for name in ("base", "tuned")]
        for each in logs:
            write_logs(each, arguments.logged, TASKS)
        add("compare", command("compare", *map(str, logs), "--quiet"), rows=arguments.logged, tasks=TASKS)
    if not arguments.no_write:
        load = round(os.getloadavg()[1], 1)  # of five minutes: a busy machine's clock says little
        write_results("report-speed", rows, rounds=arguments.rounds, answers=source, load_average=load)


if __name__ == "__main__":
    main()
