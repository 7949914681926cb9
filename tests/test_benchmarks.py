"""The benchmarks run, and what docs/performance.md says is what their results files hold."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import forked
import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*arguments: str) -> str:
    done = forked.run([sys.executable, "-m", *arguments], ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    import benchmarks.summary

    return benchmarks


@pytest.mark.slow
def test_objective_speed_prints_every_ratio():
    printed = run("benchmarks.objective_speed", "--shape", "700,16", "--tokens", "64", "--rounds", "2", "--no-write")
    assert "(700, 16), 64 tokens" in printed
    for pair in ("emo/mle", "emo/emoloss", "mle/torch_bf16", "mle/torch_float32"):
        assert pair in printed


@pytest.mark.full
def test_judge_speed_sends_the_same_requests_and_prints_every_ratio():
    printed = run("benchmarks.judge_speed", "--pairs", "6", "--rounds", "1", "--no-write")
    for contender in ("ours", "alpaca_eval", "alpaca_eval_64"):
        assert re.search(rf"^{contender} +6 requests", printed, re.MULTILINE)
    for figure in ("alpaca_eval/ours", "alpaca_eval_64/ours", "cpu_ms_a_verdict", "seconds_of_commands"):
        assert figure in printed


@pytest.mark.slow
def test_reward_judge_gets_the_scores_of_the_bare_model():
    printed = run("benchmarks.reward_judge", "--model", "tiny", "--pairs", "6", "--rounds", "1", "--no-write")
    assert re.search(r"^judging/forward [\d.]+ .*; 12 texts, .* scores differ by at most", printed, re.MULTILINE)


@pytest.mark.slow
def test_report_speed_prints_every_row_with_its_target():
    printed = run("benchmarks.report_speed", "--pairs", "6", "--verdicts", "20", "--rounds", "1", "--no-write")
    for row in ("help", "pairs", "pairs again", "verdicts"):
        assert re.search(rf"^{row} +.*seconds [\d.]+, cpu_seconds [\d.]+, gib [\d.]+, aim", printed, re.MULTILINE)
    assert re.search(r"^page +(pairs 6, seconds [\d.]+|not measured)", printed, re.MULTILINE)


@pytest.mark.full
def test_many_rows_prints_each_command_s_ratios():
    printed = run("benchmarks.many_rows", "--rows", "10", "30", "--no-write")
    for command in ("generate", "generate again", "judge", "judge again", "report"):
        assert re.search(rf"^{command} +times .*'cpu_seconds': [\d.]+}}, [\d.]+ GiB$", printed, re.MULTILINE)


@pytest.mark.slow
def test_retrieval_alone_is_what_the_page_of_tasks_says(shared_data):
    found = run("benchmarks.retrieval", "--folder", str(shared_data / "tasks"), "--tasks", "trec", "--no-write")
    floor = re.search(r"'all': {'rows': 500, 'floor': ([\d.]+)", found)
    assert floor
    assert floor[1] in (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")


@pytest.mark.full
def test_check_speed_has_a_row_for_each_objective():
    assert "{'objective': 'mle', 'seconds': " in run("benchmarks.check_speed", "--objectives", "mle", "--no-write")


@pytest.mark.slow
def test_the_objective_takes_less_memory_than_the_logits_alone():
    """A hundred chunks of tokens: neither they nor a matrix of tokens x vocabulary is ever there at once."""
    tokens, vocabulary = 8192, 8000
    call = [sys.executable, "-m", "benchmarks.memory", "--one", "mle", str(vocabulary), "32", str(tokens), "cpu"]
    printed = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed.splitlines()[-1])["peak"] < 0.5 * tokens * vocabulary * 2


@pytest.mark.full
@pytest.mark.xdist_group("vllm")
def test_judging_in_vllm_is_compared_with_plain_generation():
    pytest.importorskip("vllm", reason="vLLM is not installed")
    printed = run("benchmarks.judge_vllm", "--pairs", "2", "--max-tokens", "4", "--rounds", "1", "--no-write")
    assert "judging/generate" in printed
    assert printed.count("tokens a second, 8 a round") == 2  # both write as much


@pytest.mark.full
@pytest.mark.xdist_group("vllm")
def test_continuing_in_vllm_is_compared_with_plain_generation():
    pytest.importorskip("vllm", reason="vLLM is not installed")
    printed = run("benchmarks.continuations", "--prefixes", "2", "--tokens", "4", "--rounds", "1", "--no-write")
    assert re.search(r"^continue_texts/generate [\d.]+", printed, re.MULTILINE)


def test_the_page_is_made_from_the_results(benchmarks):
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert benchmarks.summary.page(page) == page


def test_the_page_of_tasks_has_what_retrieval_alone_reaches():
    page = " ".join((ROOT / "docs" / "tasks.md").read_text(encoding="utf-8").split())
    rows = json.loads((ROOT / "benchmarks" / "results" / "retrieval-cpu.json").read_text())["rows"]
    floors = {(row["retriever"], row["task"]): row["all"]["floor"] for row in rows}
    assert f"all-mpnet-base-v2 it is {floors['all-mpnet-base-v2', 'trec']:.1f} on TREC" in page
    for retriever, words in (("tfidf", "TF-IDF and 8 shots it is"), ("all-MiniLM-L6-v2", "with all-MiniLM-L6-v2")):
        trec, subj, sst2, tweets = (floors[retriever, task] for task in ("trec", "subj", "sst2", "tweet_emotion"))
        assert f"{words} {trec} on TREC, {subj} on Subj, {sst2} on SST-2 and {tweets} on Tweet Emotion" in page


def test_the_page_of_installation_has_the_measured_sizes():
    page = (ROOT / "docs" / "installation.md").read_text(encoding="utf-8")
    measured = json.loads((ROOT / "benchmarks" / "results" / "install-sizes.json").read_text())
    assert f"{measured['machine']['cores']} cores of an {measured['machine']['processor']}" in page
    for row in measured["installs"]:
        name = "none" if row["extra"] == "base" else f"`[{row['extra']}]`"
        assert f"| {name} | {row['packages']} | {row['megabytes']:,} | {row['seconds']} |" in page


def test_the_page_says_how_much_padding_grouping_saves():
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    rows = json.loads((ROOT / "benchmarks" / "results" / "padding-cpu.json").read_text())["rows"]
    for row in rows:
        ratios = row["padded_per_real_token"]
        figures = f"{ratios['random']:.3f} | {ratios['group_by_length']:.3f}"
        assert f"| `{row['config']}` | {row['batch']} | {figures} |" in page
        assert ratios["group_by_length"] < 1.05 < 1.7 < ratios["random"]


def test_the_page_has_the_roofline_and_the_registers(benchmarks):
    from benchmarks.roofline import GPUS, total_lines

    page = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert "\n".join(total_lines(GPUS["h100"], 16384, 128256, 3657)) in page
    found = json.loads((ROOT / "benchmarks" / "results" / "compiled_kernels-sm_90.json").read_text())
    assert found["device"] == "sm_90"
    assert all(row["spilled_bytes"] == 0 for row in found["rows"])
    shown = [row for row in found["rows"] if (row["dtype"], row["vocabulary"]) == ("bf16", 128256)]
    for row in shown:
        if row["use"] != "everything":
            objective = {"mle": "cross-entropy", "emo": "EMO"}[row["use"]]
            figures = f"{row['registers']} | {row['warps']} | {100 * row['occupancy']:.0f} %"
            assert f"| {row['kernel']} | {objective} | {figures} |" in page


def test_the_roofline_counts_every_product_once(benchmarks):
    """Two products of 2 x tokens x vocabulary x width, and a third if the head trains; more rows never take longer."""
    from benchmarks.roofline import GPUS, Problem, cut, liger, ours

    for head_trains, products in ((False, 2), (True, 3)):
        problem = Problem(16384, 128256, 2048, 3657, head_trains)
        once = 2 * 16384 * 128256 * 2048
        for path in (ours(GPUS["h100"], problem, 1024, emo=False), liger(GPUS["h100"], problem)):
            assert sum(stage.flops for stage in path.stages) == pytest.approx(products * once)
        assert sum(stage.flops for stage in cut(GPUS["h100"], problem).stages) == pytest.approx((products + 1) * once)
        times = [ours(GPUS["h100"], problem, rows, emo=True).tiled_seconds for rows in (256, 512, 1024)]
        assert times == sorted(times, reverse=True)


def test_alternation_gives_every_contender_a_turn_in_every_round(benchmarks):
    from benchmarks.harness import alternate, ratio

    turns: list[str] = []
    seconds = alternate({name: (lambda name=name: turns.append(name)) for name in "abc"}, rounds=3)
    assert [sorted(turns[start : start + 3]) for start in range(0, 12, 3)] == [["a", "b", "c"]] * 4  # one to warm up
    assert {name: len(values) for name, values in seconds.items()} == {"a": 3, "b": 3, "c": 3}
    assert ratio({"x": [2.0, 4.0, 9.0], "y": [1.0, 1.0, 3.0]}, "x", "y")["median"] == 3


def test_what_docs_say_of_early_stopping_was_simulated():
    rows = json.loads((ROOT / "benchmarks" / "results" / "early-stopping-cpu.json").read_text())["rows"]
    text = (ROOT / "docs" / "statistics.md").read_text()
    for ties, name in ((0.0, "no ties"), (0.3, "30 % ties")):
        shown = {round(row["rate"]): row["judged"] for row in rows if row["ties"] == ties}
        cells = " | ".join(f"{shown[rate]:.0f}" for rate in (52, 55, 60, 65, 70, 75))
        assert f"| pairs judged, {name} (median) | {cells} |" in text
    coverage = [row["coverage"] for row in rows]
    assert min(coverage) >= 0.95
    assert f"{100 * min(coverage):.1f} % or more" in re.sub(r"\s+", " ", text)


@pytest.mark.slow
def test_early_stopping_prints_a_row_for_each_rate():
    printed = run("benchmarks.early_stopping", "--runs", "3", "--no-write")
    assert printed.count("coverage") == 14


@pytest.mark.slow
def test_scoring_gets_the_numbers_of_the_bare_model():
    flags = ("--model", "tiny", "--dtype", "float32", "--texts", "4", "--rounds", "1", "--no-write")
    printed = run("benchmarks.scoring", *flags)
    for each in ("perplexity", "features"):
        assert re.search(rf"^{each}: [\d,]+ tokens a second, [\d.]+ of the bare forward's", printed, re.MULTILINE)


@pytest.mark.slow
def test_mauve_is_timed_with_mauve_text_and_its_error_with_the_actual_one():
    printed = run(
        "benchmarks.mauve", "--texts", "200", "--width", "16", "--rounds", "1", "--repetitions", "3", "--no-write"
    )
    assert re.search(r"^ours: [\d.]+ CPU seconds for 200 x 2 texts$", printed, re.MULTILINE)
    assert len(re.findall("standard_deviation [\\d.]+, jackknife [\\d.]+, bootstrap [\\d.]+", printed)) == 3


@pytest.mark.full
def test_mauve_of_models_samples_is_measured_and_resumes(shared_data, tmp_path):
    flags = (str(shared_data / "lm" / "human_and_model_texts"), "--length", "8", "--limit", "200", "--no-write")
    printed = run("benchmarks.human_and_model_texts", *flags, "--cache", str(tmp_path))
    # The first 8 tokens are those that the models were given.
    assert len(re.findall(r"^  gpt-j-6B +MAUVE 1\.000 \(1\.000 to 1\.000\)", printed, re.MULTILINE)) == 3
    again = run("benchmarks.human_and_model_texts", *flags, "--cache", str(tmp_path))
    assert "features:" not in again
    assert again.endswith(printed[printed.index("both: 400 texts") :])


def test_the_page_of_benchmarks_has_the_measured_values_of_mauve():
    page = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    found = json.loads((ROOT / "benchmarks" / "results" / "human-and-model-texts.json").read_text())
    for part in ("xsum", "writing", "both"):
        for system in found[part]["systems"].values():
            low, high = system["interval"]
            assert f"{system['mauve']:.3f} ({low:.3f} to {high:.3f})" in page
    (timed,) = json.loads((ROOT / "benchmarks" / "results" / "mauve-cpu.json").read_text())["rows"]
    assert timed["speed"]["seconds"]["ours"] < timed["speed"]["aim_seconds"]
    assert f"{timed['speed']['seconds']['ours']:.1f} seconds" in page
    for row in timed["errors"]:
        cells = (row[key] for key in ("mauve", "standard_deviation", "jackknife", "bootstrap", "mean_of_resamples"))
        assert f"| {' | '.join(f'{cell:.3f}' for cell in cells)} |" in page
