"""Logs written from the tools' sources: their figures, and what each field becomes."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from log_samples import TABLE, Sample, evalplus, helm, judge_arena, pass_at_1, promptfoo, stat

from instruct.base.errors import InputError
from instruct.logs.log import Log
from instruct.logs.read import read_logs
from instruct.logs.source import Columns
from instruct.reporting.compare_logs import compare_logs


def read(files: dict, folder: Path) -> list[Log]:
    [found] = read_logs([Sample(files, 0).write(folder)])
    return found.logs


def test_evalplus_has_its_pass_at_1_also_with_unequal_numbers_of_samples(tmp_path) -> None:
    content = evalplus()
    name = "org--tuned_vllm_temp_0.8.eval_results.json"
    content["pass_at_k"]["base"]["pass@10"] = 0.75
    [log] = read({name: content}, tmp_path)
    assert (log.tool, log.model, log.task) == ("EvalPlus", "org/tuned", "HumanEval")
    assert log.settings == {"temperature": 0.8, "engine": "vllm", "task version": "fe58", "date": "2026-01-01 10:00"}
    assert [*log.values] == ["plus pass@1", "base pass@1"]
    assert log.figures["base pass@10"] == 0.75
    assert log.unpaired == ["base pass@10"]
    content["eval"]["HumanEval/1"] *= 2
    content["pass_at_k"] = pass_at_1(content["eval"])
    [log] = read({name: content}, tmp_path)
    assert log.figures["base pass@1"] == pytest.approx(log.mean("base pass@1"), abs=1e-15)
    content["pass_at_k"]["plus"]["pass@1"] += 0.01
    with pytest.raises(InputError, match=r"plus pass@1 of the task HumanEval is .* but the rows of .* have the mean"):
        read({name: content}, tmp_path)


def test_evalplus_without_the_extra_tests_and_in_its_first_form(tmp_path) -> None:
    content = evalplus(1)
    for samples in content["eval"].values():
        samples[0]["plus_status"] = None
    [log] = read({"eval_results.json": content | {"pass_at_k": {}}}, tmp_path / "tuned_hf_temp_0.0")
    assert (log.model, log.settings["engine"], [*log.values]) == ("tuned", "hf", ["base pass@1"])
    old = {
        "HumanEval/0": {
            "nfiles": 2,
            "base": [["success", []], ["success", []]],
            "plus": [["failed", []], ["success", []]],
        }
    }
    [log] = read({"x_eval_results.json": {"date": "", "hash": "h", "eval": old}}, tmp_path)
    assert ([*log.values["plus pass@1"]], [*log.values["base pass@1"]], log.model) == ([0, 1], [1, 1], "x")


def test_helm_has_a_log_for_each_context_with_its_settings_texts_and_figures(tmp_path) -> None:
    plain, typos = read(helm(), tmp_path)
    assert (plain.model, plain.task, typos.task) == (
        "org/tuned", "mmlu:subject=anatomy,method=joint", "mmlu:subject=anatomy,method=joint, typos"
    )  # fmt: skip
    assert plain.settings == {"shots": 5, "limit": 3, "temperature": 0.0}
    assert [*plain.values] == ["exact_match", "f1_score", "quality"]
    assert plain.texts[0] == ("Qid1?", "A")
    assert plain.better == {}
    assert plain.hashes["prompt"][0] not in (0, plain.hashes["doc"][0])
    assert plain.figures == {"exact_match": 2 / 3, "quality": 2 / 3, "perplexity": 3.5}
    assert plain.unpaired == ["perplexity"]
    assert typos.figures == {"exact_match": 2 / 3, "quality": 2 / 3}
    files = helm()
    files["stats.json"][0]["mean"] = 0.5
    with pytest.raises(
        InputError, match=r"stats.json: stats, row 1: exact_match of the task mmlu.* is 0.5, but the rows"
    ):
        read(files, tmp_path)


def test_helm_without_the_files_beside_it_is_read_and_its_trials_are_repeats(tmp_path) -> None:
    rows = [row | {"train_trial_index": trial} for trial in (0, 1) for row in helm()["per_instance_stats.json"]]
    plain, _ = read({"per_instance_stats.json": rows}, tmp_path / "run")
    assert (plain.model, plain.task, plain.units) == (None, "run", ["id1", "id2", "id3"] * 2)
    errors = [row | {"stats": [stat("wer_score", [0.5])]} for row in rows]
    assert read({"per_instance_stats.json": errors}, tmp_path / "errors")[0].better == {"wer_score": "lower"}
    changed = copy.deepcopy(rows)
    changed[-1]["stats"] = changed[0]["stats"]
    changed[-1]["stats"][1]["mean"] = 0.25
    with pytest.raises(InputError, match=r"row 24: f1_score: the instance 'id3' has two values"):
        read({"per_instance_stats.json": [*changed, changed[-1] | {"stats": rows[2]["stats"]}]}, tmp_path / "run")


@pytest.mark.parametrize("version", [3, 2])
def test_promptfoo_has_the_share_of_passed_tests_of_each_provider(version, tmp_path) -> None:
    first, second = read({"results.json": promptfoo(version)}, tmp_path)
    assert (first.model, second.model, first.task) == ("openai:a", "openai:b", "Say {{x}}")
    assert first.units == second.units == ["0", "1", "2"]
    assert [*first.values] == ["pass", "score", "tone"]
    assert first.figures == {"pass": 1 / 2}
    assert first.reasons == {"error: API error: 429": 1}
    assert first.texts[0] == ("0", "said 0")
    assert first.settings == {"tool version": "0.120.0", "date": "2026-01-01T10:00:00Z", "schema": version}
    [log, _] = read({"summary.json": promptfoo(version)["results"]}, tmp_path)
    assert log.figures == first.figures
    content = promptfoo(version)
    columns = content["results"].get("prompts") or content["results"]["table"]["head"]["prompts"]
    columns[1]["metrics"]["testPassCount"] = 3
    with pytest.raises(InputError, match=r"row 2: pass of the task Say {{x}} is 0.75, but the rows of results.json"):
        read({"results.json": content}, tmp_path)


def test_promptfoo_repeats_are_told_from_tests_with_other_assertions(tmp_path) -> None:
    content = promptfoo()
    results = content["results"]["results"]
    del content["results"]["prompts"]
    content["results"]["results"] = results + copy.deepcopy(results)
    first, _ = read({"results.json": content}, tmp_path)
    assert first.units == ["0", "1", "2"] * 2
    for result in content["results"]["results"][6:]:
        result["testCase"]["assert"] = [{"type": "is-json"}]
    first, _ = read({"results.json": content}, tmp_path)
    assert len({*first.units}) == 6


def test_judge_arena_has_its_win_rate_over_the_battles_of_both_orders(tmp_path) -> None:
    [log] = read(judge_arena(), tmp_path)
    assert (log.model, log.task) == ("tuned", "alpaca-eval against base")
    assert log.settings == {"judge": "judge", "orders": "both"}
    assert log.figures == {"win rate": 0.7}
    assert log.mean("preference", by_row=True) == pytest.approx((0.8 + 0.5 + 0.6 + 0.1 + 0.9) / 5)
    assert log.units == ["0", "1", "2"] * 2
    assert [text for _, text in log.texts] == [f"tuned {n}" for n in (0, 1, 2)] * 2
    assert log.reasons == {"no verdict in the judge's reply": 1}
    assert [found.unknown for found in read_logs([tmp_path])] == [{}]


def test_judge_arena_reads_its_turns_ratings_and_baselines(tmp_path) -> None:
    names = {"model_A": "tuned", "judge": "judge"}
    turns = [{"question_id": 81, "turn": n, "model_B": "base", "g1_verdict": "A"} | names for n in (1, 2)]
    results = {
        "model_A": "tuned",
        "model_B": "base",
        "judge_model": "judge",
        "task": "mt-bench",
        "preferences": [0.0, 1.0],
    }
    [log] = read({"results-x.json": results | {"winrate": 0.5}, "x-annotations.csv": turns}, tmp_path / "turns")
    assert (log.units, log.clusters) == (["81, turn 1", "81, turn 2"], ["81", "81"])
    battles = [{"instruction_index": n, "model_B": base, "judge_completion": ""} | names for n, base in enumerate("bc")]
    logs = read({"results-x.json": results, "x-annotations.csv": battles}, tmp_path / "baselines")
    assert [(log.task, log.groups) for log in logs] == [
        (f"mt-bench against {base}", {"mt-bench": True}) for base in "bc"
    ]
    summary = {"model_A": "tuned", "arena": "ComparIA", "judge_model": "judge", "winrate": 0.6, "elo_mean": 1050.5}
    [log] = read({"results-tuned.json": {"summary": summary, "bootstrap_ratings": []}}, tmp_path / "ratings")
    assert (log.units, log.figures, log.unpaired) == ([], {"winrate": 0.6, "elo_mean": 1050.5}, ["winrate", "elo_mean"])


@pytest.mark.parametrize("lacking", [0, 1])
def test_judge_arena_results_and_battles_need_each_other(lacking, tmp_path) -> None:
    files = judge_arena()
    names = [*files]
    del files[names[lacking]]
    with pytest.raises(InputError, match=f"{names[1 - lacking]}: the .* are in {names[lacking]}; put it beside them"):
        read(files, tmp_path)


def test_ratings_are_listed_and_not_compared(tmp_path) -> None:
    for system in ("base", "tuned"):
        summary = {"model_A": system, "arena": "ComparIA", "judge_model": "judge", "elo_mean": 1000.0}
        files = {f"results-{system}.json": {"summary": summary, "bootstrap_ratings": []}}
        Sample(files, 0).write(tmp_path / system)
        Sample({"scores.csv": TABLE}, 0).write(tmp_path / system)
    compared = compare_logs([tmp_path / "base", tmp_path / "tuned"], columns=Columns("id", ("score",)))
    assert [claim.measure for claim in compared.claims] == ["score"]
    assert [log["not_paired"] for log in compared.content()["logs"] if log["not_paired"]] == [{"elo_mean": 1000.0}] * 2
