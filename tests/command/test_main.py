"""The command: its verbs, what bad input gets, and what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from instruct.command.flags import SECTIONS
from instruct.command.main import make_parser, verbs_of
from instruct.config import ExperimentConfig
from instruct.judging.comparison import ComparisonKey
from instruct.judging.store import JudgmentStore
from instruct.run.consent import agree
from instruct.run.directory import RunDirectory

GOOD = {"instruction": "Say hello.", "input": "", "output": "Hello."}


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
    ("call", "code"),
    [
        ("--help", 0),
        ("report --help", 0),
        ("trian", 2),
        ("train demo --modle x", 2),
        ("train demo --trian.seed 1", 2),
        ("train demo --data.limt 1", 2),
        ("train demo --train.lerning_rate 1", 2),
        ("train demo --lora.alhpa 1", 2),
    ],
)
def test_help_and_an_error_of_typing_import_nothing_heavy(call, code):
    script = (
        "import sys\nfrom instruct.command.main import main\nsys.argv = ['instruct', *sys.argv[1:]]\n"
        "try:\n    code = main()\nexcept SystemExit as error:\n    code = error.code\n"
        "print(code, {'torch', 'transformers', 'vllm', 'datasets', 'pandas', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script, *call.split()], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"{code} set()", done.stderr


def test_sections_are_those_of_the_config():
    """Their flags need no dot; `name`, `model` and `cluster` are flags of their own."""
    assert {*SECTIONS, "name", "model", "cluster"} == set(ExperimentConfig.model_fields)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("train --data.files none.jsonl", "none.jsonl"),
        ("train --data.card alpaca_gtp4", "alpaca_gpt4"),
        ("train demo --train.lerning_rate 1", "learning_rate"),
        ("train demo --train.max_steps many", "train.max_steps"),
        ("train demo --trian.learning_rate 1", "train"),
        ("train demo --data.limt 1", "limit"),
        ("train demo --lora.r many", "lora.r"),
        ("train demo --lora.r", "--lora.r"),
        ("train demoo", "demoo"),
        ("train demo --name ../elsewhere", "../elsewhere"),
        ("train demo --model /nowhere/model", "/nowhere/model"),
        ("train", "data"),
        ("generate", "adapters"),
        ("judge --judge smolm2_score", "smollm2_score"),
        ("judge --judge alpaca_eval_gpt4", "costs money"),
        ("judge --judge pandalm --judge autoj --judge-model m", "--judge-model"),
        ("judge --candidate a.json --baseline b.json --output x", "--judge"),
        ("run demo --from judge --until train", "--from"),
        ("report nothing", "nothing/manifest.json"),
        ("report --train.max_steps 3", "--train.max_steps"),
        ("compare ~nosuchuser/x.csv b.csv", "home directory"),
        ("evaluate runs/x --name y", "--name"),
        ("generate --dry-run", "(a flag of run, bench)"),
    ],
)
def test_a_wrong_call_is_refused_with_exit_code_2(instruct, tmp_path, call, named):
    assert named in refused(instruct(*call.split()))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("call", ["compare {}.csv b.csv --unit-column id --metric acc --json", "train demo --name {}"])
def test_a_name_that_is_not_utf_8_is_one_line(instruct, tmp_path, call):
    name = os.fsdecode(b"\xff")
    for file in (name, "b"):
        (tmp_path / f"{file}.csv").write_text("id,acc\n1,1\n2,0\n")
    refused(instruct(*call.format(name).split()))


def test_a_run_is_not_continued_with_a_different_config(instruct, tmp_path, tiny_model_folder):
    write_lines(tmp_path / "my.jsonl", GOOD, GOOD)
    call = ["train", "--model", tiny_model_folder, "--data.files", "my.jsonl", "--objective", "emo"]
    assert instruct(*call, "--train.max_steps", 1)[0] == 0
    weights = tmp_path / "runs" / "train" / "adapters" / "emo" / "adapter_model.safetensors"
    before = weights.read_bytes()
    line = refused(instruct(*call, "--train.max_steps", 2))
    assert "runs/train/config.yaml: train.max_steps was 1 and is 2 now" in line
    assert weights.read_bytes() == before


def test_preview_shows_the_mask_the_counts_and_one_step(instruct, tmp_path, tiny_model_folder):
    write_lines(tmp_path / "my.jsonl", GOOD, {**GOOD, "output": ""}, {**GOOD, "output": "Hello again.\x1b[31m"})
    code, stdout, _ = instruct("preview", "--model", tiny_model_folder, "--data.files", "my.jsonl", "--rows", 2)
    assert code == 0
    assert "3 rows read" in stdout
    assert "Say hello." in stdout
    assert "Hello again.\\x1b[31m" in stdout  # shown, not obeyed
    assert "one step (mle): loss" in stdout
    assert re.search(r"gradient norm [\d.]+, [\d.]+ s, [\d.]+ GiB$", stdout, re.MULTILINE)
    assert not (tmp_path / "runs").exists()


def test_preview_brackets_every_answer_of_a_chat_without_colors(instruct, tmp_path, tiny_model_folder):
    turns = [("user", "One?"), ("assistant", "It is 1."), ("user", "Two?"), ("assistant", "It is 2."), ("user", "Bye")]
    write_lines(tmp_path / "my.jsonl", {"messages": [{"role": role, "content": text} for role, text in turns]})
    call = ["preview", "--model", tiny_model_folder, "--data.files", "my.jsonl"]
    code, stdout, _ = instruct(*call)
    assert code == 0
    text = "<|user|>One?<|end|>\n<|assistant|>⟦It is 1.<|end|>⟧\n<|user|>Two?<|end|>\n<|assistant|>⟦It is 2.<|end|>⟧"
    assert text in stdout
    assert "2 answers of chats, each trained on with its end token" in stdout
    assert re.search(r"│ not trained on +│ \d+", stdout)
    assert "note: 1 turn after a chat's last answer: left out" in stdout
    assert "⟦trained on⟧; the rest is seen, not trained on" in stdout
    assert "\x1b[" not in stdout
    assert f"over {len('It is 1.') + 1 + len('It is 2.') + 1} tokens" in stdout
    last = instruct(*call, "--train.train_on", "last_turn")[1]
    assert "<|assistant|>It is 1.<|end|>\n<|user|>Two?<|end|>\n<|assistant|>⟦It is 2.<|end|>⟧" in last
    assert "⟦<|user|>One?" in instruct(*call, "--train.train_on", "all_tokens")[1]


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


def test_systems_are_compared_with_the_baseline_if_nothing_else_is_named(instruct, tmp_path, fake_server):
    url, _ = fake_server()
    run = make_run(tmp_path / "runs" / "it", emo=["a"], mle=["b"])
    config = run.config() | {"comparisons": [], "systems": {name: {"objective": name} for name in ("emo", "mle")}}
    (run.folder / "config.yaml").write_text(yaml.safe_dump(config))
    call = ["judge", "runs/it", "--judge", "pandalm", "--base-url", url]
    assert "has no comparisons; give --candidate and --baseline" in refused(instruct(*call))
    rows = [{"dataset": "d", "instruction": "Question 0?", "output": "c", "generator": "people"}]
    (run.outputs / "baseline.json").write_text(json.dumps(rows))
    code, stdout, stderr = instruct(*call)
    assert code == 0, stderr
    assert "comparisons: emo, mle against the evaluation set's own answers" in stdout
    with JudgmentStore(run.store) as store:
        assert store.comparisons() == [ComparisonKey("pandalm", name, "baseline") for name in ("emo", "mle")]


def test_a_judge_is_taken_from_the_config(instruct, tmp_path):
    run = make_run(tmp_path / "runs" / "it", emo=["a"], mle=["b"])
    assert "runs/it/config.yaml: has no judges; give --judge" in refused(instruct("judge", "runs/it"))
    config = run.config() | {"judges": [{"card": "pandalm", "base_url": "http://127.0.0.1:9/v1"}]}
    (run.folder / "config.yaml").write_text(yaml.safe_dump(config))
    agree(run)
    _, _, stderr = instruct("judge", "runs/it")
    assert "judge pandalm: http://127.0.0.1:9/v1 does not answer" in stderr
    line = refused(instruct("judge", "runs/it", "--orders", "one"))
    assert "--orders requires --judge or --judge-model; without it the config's judges are asked" in line


@pytest.mark.parametrize(
    "verb", [["judge", "runs/it"], ["validate", "--against", "pairs.jsonl", "--replay", "x.jsonl"]]
)
def test_flags_of_a_judge_require_a_judge(instruct, tmp_path, verb):
    make_run(tmp_path / "runs" / "it", emo=["a"], mle=["b"])
    for flag, value in {"criteria": "brief", "engine": "server", "budget-usd": 1}.items():
        assert f"--{flag} requires --judge or --judge-model; without it" in refused(instruct(*verb, f"--{flag}", value))
    for flag in ("trim", *(["yes", "retry-failed"] if verb[0] == "validate" else [])):
        assert f"--{flag} requires --judge or --judge-model; without it" in refused(instruct(*verb, f"--{flag}"))
    if verb[0] == "validate":
        assert "--judge-model requires --judge" in refused(instruct(*verb, "--judge-model", "x"))
    for judge in ([], ["--judge", "pandalm"]):
        line = refused(instruct(*verb, *judge, "--budget-usd", -1))
        assert "command line: budget_usd: must be more than 0 (given: -1.0)" in line


def test_an_unknown_flag_names_the_nearest(instruct):
    code, _, stderr = instruct("preview", "demo", "--modle")
    assert code == 2
    assert "unrecognized arguments: --modle (nearest: --model" in stderr
    assert "(nearest" not in instruct("doctor", "stray")[2]


def test_a_config_is_printed_with_its_flags_resolved(instruct, tmp_path):
    code, stdout, _ = instruct("config", "demo", "--train.max_steps", "3", "--name", "mine")
    content = yaml.safe_load(stdout)
    assert (code, content["name"], content["train"]["max_steps"]) == (0, "mine", 3)
    assert content["answers"]["generation"]["temperature"] == 0.0
    code, stdout, _ = instruct("config", "--schema")
    assert json.loads(Path(stdout.strip()).read_text())["title"] == "ExperimentConfig"


def test_one_objective_leaves_out_comparisons_with_others(instruct):
    code, stdout, stderr = instruct("config", "demo", "--objective", "mle")
    assert code == 0, stderr
    assert stderr.startswith("note: comparisons left out, because mle is the only system: emo against mle")
    assert yaml.safe_load(stdout)["comparisons"] in ([], [["mle", "baseline"]])


def test_the_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "instruct", "--version"], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"instruct \d+\.\d+\.\d+\S*\n", done.stdout)


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
    judge = tmp_path / "judges" / "autoj"
    judge.mkdir(parents=True)
    (judge / "judge.yaml").write_text(
        yaml.safe_dump(
            {
                "name": "autoj", "description": "mine", "model": "me/mine", "protocol": "pairwise", "prompt": "p.txt",
                "prompt_form": "chat", "decoding": {}, "verdict": {"labels": {"first": "A", "second": "B"}},
                "order_policy": "both", "leading_policy": "strict", "context_length": 10,
                "licence": "mine\x1b[2J\r\nalone",
            }
        )
    )  # fmt: skip
    code, stdout, _ = instruct("list", "judges")
    assert code == 0
    assert "licence: mine [2J alone" in stdout
    assert all(line.isprintable() for line in stdout.splitlines())
    assert all(name in stdout for name in ("autoj", "pandalm", "alpaca_eval_gpt4", "smollm2_score", "me/mine"))
    assert "note: autoj in" in stdout
    code, stdout, _ = instruct("list", "data")
    assert all(name in stdout for name in ("alpaca_gpt4", "starter_eval"))
    make_run(tmp_path / "runs" / "mine", emo=["a"])
    assert "runs/mine" in instruct("list", "runs")[1]


def test_help_lists_every_verb_once_in_the_order_of_the_work(instruct):
    code, out, _ = instruct("--help")
    verbs = re.findall(r"^  ([a-z]+)  +\S", out, re.MULTILINE)
    assert code == 0
    assert sorted(verbs) == sorted(verbs_of(make_parser()))
    assert verbs[0] == "run"
    assert verbs.index("train") < verbs.index("generate") < verbs.index("judge") < verbs.index("report")
    assert len(out.splitlines()) < 50
