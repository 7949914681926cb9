"""The command: its verbs, what bad input gets, and what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from instruct.config import ExperimentConfig
from instruct.judging.comparison import ComparisonKey
from instruct.judging.store import JudgmentStore
from instruct.run.directory import RunDirectory

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def instruct(instruct, monkeypatch, tmp_path):
    """`instruct(...)` in an empty folder, without a key: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return instruct


def refused(result: tuple[int, str, str]) -> str:
    """The one line that a wrong call got."""
    code, _, stderr = result
    lines = [line for line in stderr.splitlines() if line.startswith("instruct: ")]
    assert code == 2, stderr
    assert len(lines) == 1, stderr
    assert "Traceback" not in stderr
    return lines[0]


def write_lines(path: Path, *rows: object) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("call", "code"), [("report --help", 0), ("trian", 2), ("train demo --train.lerning_rate 1", 2)]
)
def test_help_and_an_error_of_typing_import_nothing_heavy_and_take_at_most_2_s(call, code):
    script = (
        "import sys, time\nfrom instruct.command.main import main\nsys.argv = ['instruct', *sys.argv[1:]]\n"
        "try:\n    code = main()\nexcept SystemExit as error:\n    code = error.code\n"
        "heavy = {'torch', 'transformers', 'vllm', 'datasets', 'pandas', 'matplotlib'} & set(sys.modules)\n"
        "print(code, heavy, time.process_time() < 2)"
    )
    done = subprocess.run([sys.executable, "-c", script, *call.split()], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"{code} set() True", done.stderr


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("train --data.files none.jsonl", "none.jsonl"),
        ("train --data.card alpaca_gtp4", "alpaca_gpt4"),
        ("train demo --train.lerning_rate 1", "learning_rate"),
        ("train demoo", "demoo"),
        ("train", "data"),
        ("judge --judge alpaca_eval_gpt4", "costs money"),
        ("run demo --from judge --until train", "--from"),
        ("report nothing", "nothing/manifest.json"),
        ("report --train.max_steps 3", "--train.max_steps"),
    ],
)
def test_a_wrong_call_is_refused_with_exit_code_2(instruct, tmp_path, call, named):
    assert named in refused(instruct(*call.split()))
    assert not list(tmp_path.iterdir())


def test_preview_brackets_what_is_trained_on_and_takes_one_step(instruct, tmp_path, tiny_model_folder):
    turns = [("user", "One?"), ("assistant", "It is 1."), ("user", "Two?\x1b[31m"), ("assistant", "It is 2.")]
    write_lines(tmp_path / "my.jsonl", {"messages": [{"role": role, "content": text} for role, text in turns]})
    call = ["preview", "--model", tiny_model_folder, "--data.files", "my.jsonl"]
    code, stdout, _ = instruct(*call)
    assert code == 0
    answers = "⟦It is 1.<|end|>⟧", "⟦It is 2.<|end|>⟧"
    asked = "<|user|>Two?\\x1b[31m<|end|>"  # shown, not obeyed
    assert f"<|user|>One?<|end|>\n<|assistant|>{answers[0]}\n{asked}\n<|assistant|>{answers[1]}" in stdout
    assert f"over {len('It is 1.') + 1 + len('It is 2.') + 1} tokens" in stdout
    assert "\x1b[" not in stdout
    assert re.search(r"gradient norm [\d.]+, [\d.]+ s, [\d.]+ GiB$", stdout, re.MULTILINE)
    assert not (tmp_path / "runs").exists()
    assert "⟦It is 1." not in instruct(*call, "--train.train_on", "last_turn")[1]


def make_run(folder: Path, **answers: list[str]) -> RunDirectory:
    """A run with answers, as after `instruct generate`."""
    run = RunDirectory(folder)
    run.start(ExperimentConfig(name=folder.name, comparisons=[("emo", "mle")]).model_dump(mode="json"))
    run.outputs.mkdir()
    for name, outputs in answers.items():
        rows = [
            {"dataset": "d", "instruction": f"Question {index}?", "output": output, "generator": name}
            for index, output in enumerate(outputs)
        ]
        (run.outputs / f"{name}.json").write_text(json.dumps(rows))
    return run


def test_the_newest_run_that_has_what_the_verb_needs_is_used(instruct, tmp_path):
    make_run(tmp_path / "runs" / "older", emo=["a"], mle=["b"])
    newer = make_run(tmp_path / "runs" / "newer", emo=["a"], mle=["b"])
    empty = RunDirectory(tmp_path / "runs" / "empty")
    empty.start(ExperimentConfig(name="empty").model_dump(mode="json"))
    now = time.time()
    for age, run in ((3, "older"), (2, "newer"), (1, "empty")):
        os.utime(tmp_path / "runs" / run / "manifest.json", (now - age, now - age))
    # Nobody listens there.
    code, stdout, stderr = instruct("judge", "--judge", "pandalm", "--base-url", "http://127.0.0.1:9/v1")
    assert "run: runs/newer (the newest)" in stdout
    assert "judge pandalm: http://127.0.0.1:9/v1 does not answer (no connection); start the server" in stderr
    assert code == 2
    with JudgmentStore(newer.store) as store:
        assert {judged.verdict for judged in store.judgments(ComparisonKey("pandalm", "emo", "mle"))} <= {"failed"}


def test_two_files_are_judged_with_one_command(instruct, tmp_path, fake_server):
    url, requests = fake_server()
    for name in ("ours", "theirs"):
        rows = [{"instruction": "Question?", "output": name, "generator": "someone"}]
        (tmp_path / f"{name}.json").write_text(json.dumps(rows))
    files = ["--candidate", "ours.json", "--baseline", "theirs.json", "--output", "results/x"]
    call = ["judge", "--judge", "pandalm", "--base-url", url, *files]
    assert "needs OPENAI_API_KEY" in refused(instruct("judge", "--judge", "alpaca_eval_gpt4", *files))
    assert not (tmp_path / "results").exists()
    code, stdout, stderr = instruct(*call)
    assert code == 0, stderr
    assert "page: results/x/report/report.html" in stdout
    assert re.search(r"^ours +1 ", stdout, re.MULTILINE)
    asked = len(requests())
    assert instruct(*call)[0] == 0  # again
    assert len(requests()) == asked


def test_an_unknown_flag_names_the_nearest(instruct):
    code, _, stderr = instruct("preview", "demo", "--modle")
    assert code == 2
    assert "unrecognized arguments: --modle (nearest: --model" in stderr
    assert "(nearest" not in instruct("doctor", "stray")[2]


def test_a_config_is_printed_with_its_flags_resolved(instruct):
    code, stdout, _ = instruct("config", "demo", "--train.max_steps", "3", "--name", "mine")
    content = yaml.safe_load(stdout)
    assert (code, content["name"], content["train"]["max_steps"]) == (0, "mine", 3)
    assert content["answers"]["generation"]["temperature"] == 0.0


def test_a_changed_parser_reads_the_stored_replies_and_asks_nothing(instruct, tmp_path, fake_server):
    url, requests = fake_server({"Question 2?": "400"})
    card = {
        "name": "mine", "description": "d", "model": "m", "protocol": "pairwise", "prompt": "p.txt",
        "prompt_form": "text", "decoding": {"max_tokens": 9}, "verdict": {"parser": "pandalm"}, "order_policy": "both",
        "leading_policy": "strict", "context_length": 999, "licence": "mine",
    }  # fmt: skip
    folder = tmp_path / "judges" / "mine"
    folder.mkdir(parents=True)
    (folder / "p.txt").write_text(
        "{instruction}\n### Response 1:\n{first}\n### Response 2:\n{second}\n### Evaluation:\n"
    )
    run = make_run(tmp_path / "runs" / "it", emo=["a", "b", "c", "same"], mle=["d", "e", "f", "same"])

    def verdicts(rule: dict) -> list[str]:
        (folder / "judge.yaml").write_text(yaml.safe_dump(card | {"verdict": rule}))
        code, _, stderr = instruct("judge", "runs/it", "--judge", "mine", "--base-url", url)
        assert code == 0, stderr
        with JudgmentStore(run.store) as store:
            return [judged.verdict for judged in store.judgments(ComparisonKey("mine", "emo", "mle"))]

    first = verdicts({"parser": "pandalm"})
    assert first[4:] == ["failed", "failed", "tie", "tie"]
    asked = len(requests())
    swapped = {"first": "second", "second": "first"}
    again = verdicts({"regex": "^(1|2|Tie)", "words": {"first": "2", "second": "1", "tie": "Tie"}})
    assert again == [swapped.get(verdict, verdict) for verdict in first] != first
    assert len(requests()) == asked


def test_list_shows_every_card_and_where_it_was_found(instruct, tmp_path):
    shutil.copytree(ROOT / "judges" / "autoj", tmp_path / "judges" / "autoj")
    path = tmp_path / "judges" / "autoj" / "judge.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"licence": "mine\x1b[2J\r\nalone"}))
    code, stdout, _ = instruct("list", "judges")
    assert code == 0
    assert "licence: mine [2J alone" in stdout
    assert all(line.isprintable() for line in stdout.splitlines())
    assert all(name in stdout for name in ("autoj", "pandalm", "alpaca_eval_gpt4", "smollm2_score"))
    assert "note: autoj in" in stdout
    make_run(tmp_path / "runs" / "mine", emo=["a"])
    assert "runs/mine" in instruct("list", "runs")[1]
