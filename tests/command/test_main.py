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
import torch
import yaml

from instruct.base.output import run_guarded
from instruct.command.flags import SECTIONS, split_overrides
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


@pytest.mark.parametrize("verb", [None, "run", "preview", "train", "generate", "judge", "report", "merge", "list"])
def test_help_says_what_a_verb_does(instruct, verb):
    code, stdout, _ = instruct(*([verb] if verb else []), "--help")
    assert code == 0
    assert "usage: instruct" in stdout
    assert verb != "train" or "--train.learning_rate" in stdout


@pytest.mark.parametrize("arguments", [["--help"], ["report", "--help"]])
def test_help_imports_nothing_heavy(arguments):
    script = (
        "import sys\nfrom instruct.command.main import main\nsys.argv = ['instruct', *sys.argv[1:]]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('HEAVY', {'torch', 'transformers', 'vllm', 'datasets', 'pandas', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    assert "HEAVY set()" in done.stdout


def test_sections_are_those_of_the_config():
    """Their flags need no dot; `name`, `model` and `cluster` are flags of their own."""
    assert {*SECTIONS, "name", "model", "cluster"} == set(ExperimentConfig.model_fields)


def test_overrides_are_separated_from_arguments():
    rest, overrides = split_overrides(
        ["demo", "--train.max_steps", "4", "--lora", "null", "--name", "x", "--a.b=1", "y"]
    )
    assert rest == ["demo", "--name", "x", "y"]
    assert overrides == ["--train.max_steps", "4", "--lora", "null", "--a.b=1"]


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([GOOD, "{oops"], "my.jsonl, row 2: is not JSON"),
        ([GOOD, 7], "my.jsonl, row 2: "),
        ([{"instruction": "a", "response": "b"}], "my.jsonl, row 1: columns instruction, response match no format"),
        ([GOOD, {"instruction": "a", "input": ""}], "my.jsonl, row 2: "),
        ([{**GOOD, "output": " "}], "my.jsonl: all 1 responses are empty"),
    ],
)
def test_rows_that_cannot_be_trained_on_are_refused(instruct, tmp_path, rows, line):
    write_lines(tmp_path / "my.jsonl", *rows)
    assert line in refused(instruct("train", "--data.files", "my.jsonl"))
    assert [path.name for path in tmp_path.iterdir()] == ["my.jsonl"]  # nothing half-written


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["train", "--data.files", "none.jsonl"], "none.jsonl: no such file"),
        (["train", "--data.card", "alpaca_gtp4"], "unknown data card 'alpaca_gtp4' (nearest: alpaca_gpt4"),
        (["train", "demo", "--train.lerning_rate", "1"], "unknown key 'train.lerning_rate' (nearest: learning_rate"),
        (["train", "demo", "--trian.learning_rate", "1"], "unknown key 'trian' (nearest: train"),
        (["train", "demo", "--data.limt", "1"], "unknown key 'data.limt' (nearest: limit"),
        (["train", "demo", "--lora.r", "many"], "lora.r: "),
        (["train", "demo", "--lora.r"], "--lora.r has no value"),
        (["train", "demoo"], "demoo: no such config"),
        (["train", "demo", "--name", "../elsewhere"], "'../elsewhere' is not a valid name"),
        (["train", "demo", "--model", "/nowhere/model"], "/nowhere/model: not a model folder"),
        (["train"], "data: no card and no files"),
        (["generate"], "no run in runs/ has adapters"),
        (["judge", "--judge", "smollm2_score"], "no run in runs/ has outputs"),
        (["judge", "--judge", "smolm2_score"], "unknown judge 'smolm2_score' (nearest: smollm2_score"),
        (
            ["judge", "--judge", "alpaca_eval_gpt4"],
            "alpaca_eval_gpt4 costs money; name the run to judge explicitly",
        ),
        (
            ["judge", "--judge", "pandalm", "--judge", "autoj", "--judge-model", "m"],
            "--judge-model takes a single --judge",
        ),
        (
            ["judge", "--candidate", "a.json", "--baseline", "b.json", "--output", "x"],
            "it takes --judge or --judge-model, --candidate",
        ),
        (
            ["judge", "--judge", "pandalm", "--candidate", "a", "--baseline", "b", "--output", "x"],
            "--candidate FILE.json",
        ),
        (["run", "demo", "--from", "judge", "--until", "train"], "--from judge comes after --until train"),
        (["report"], "no run in runs/ has judgments.sqlite"),
        (["report", "nothing"], "nothing/manifest.json: no such file"),
        (["report", "--train.max_steps", "3"], "unexpected argument '--train.max_steps'"),
    ],
)
def test_a_wrong_call_is_refused_with_exit_code_2(instruct, tmp_path, arguments, line):
    assert line in refused(instruct(*arguments))
    assert not list(tmp_path.iterdir())


def test_a_second_stage_begins_from_a_merged_adapter(instruct, tmp_path):
    adapter = tmp_path / "runs" / "first" / "adapters" / "mle"
    adapter.mkdir(parents=True)
    (adapter / "adapter_config.json").write_text("{}")
    call = instruct("train", "demo", "--name", "second", "--model", "runs/first/adapters/mle")
    assert "runs/first/adapters/mle: is an adapter, not a model; merge it into its base first" in refused(call)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.parametrize("config", ["alpaca_emo", "paper/llama2_13b_evol"])
def test_a_gpu_config_without_a_gpu_is_refused(instruct, tmp_path, config):
    assert "needs a GPU and this machine has none; `instruct run" in refused(instruct("train", config))
    assert not list(tmp_path.iterdir())


def test_a_model_without_an_lm_head_is_refused(instruct, tmp_path, tiny_model_folder):
    from transformers import AutoTokenizer, T5Config

    folder = tmp_path / "t5"
    T5Config(vocab_size=300, d_model=32, num_layers=1, num_heads=2).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_model_folder).save_pretrained(folder)
    write_lines(tmp_path / "my.jsonl", GOOD)
    line = refused(instruct("train", "--model", folder, "--data.files", "my.jsonl", "--data.template", "alpaca"))
    assert "t5 has no lm_head; name a causal language model" in line
    assert not (tmp_path / "runs").exists()


def test_an_invalid_yaml_file_is_refused(instruct, tmp_path):
    (tmp_path / "broken.yaml").write_text("name: [unclosed\n")
    assert "broken.yaml" in refused(instruct("train", "broken.yaml"))
    (tmp_path / "empty.yaml").write_text("")
    assert "empty.yaml" in refused(instruct("train", "empty.yaml"))


def test_a_run_is_not_continued_with_a_different_config(instruct, tmp_path, tiny_model_folder):
    write_lines(tmp_path / "my.jsonl", GOOD, GOOD)
    call = [
        "train",
        "--model",
        tiny_model_folder,
        "--data.files",
        "my.jsonl",
        "--objective",
        "emo",
        "--train.max_steps",
    ]
    assert instruct(*call, 1)[0] == 0
    assert (tmp_path / "runs" / "train" / "adapters" / "emo" / "adapter_model.safetensors").is_file()
    line = refused(instruct(*call, 2))
    assert "runs/train/config.yaml: train.max_steps was 1 and is 2 now, but train/emo is finished" in line
    assert line.endswith("choose another --name, restore the value, or replace what was made with --redo train")


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


def test_preview_breaks_no_line_of_a_row(instruct, tmp_path, tiny_model_folder):
    answer = "one line of an answer, " * 12
    write_lines(tmp_path / "my.jsonl", {**GOOD, "output": answer})
    code, stdout, _ = instruct("preview", "--model", tiny_model_folder, "--data.files", "my.jsonl")
    assert code == 0
    assert answer in stdout
    assert max(len(line) for line in stdout.splitlines() if line.startswith(("┃", "│"))) < 80


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


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        (
            ("train_on", "answers"),
            "train.train_on: unknown value 'answers'; use assistant_turns, last_turn, all_tokens",
        ),
        (
            ("assistant_only_loss", "true"),
            "train.assistant_only_loss has no effect on rows that this package tokenizes",
        ),
    ],
)
def test_an_unknown_mask_is_refused(instruct, tmp_path, tiny_model_folder, flag, message):
    write_lines(tmp_path / "my.jsonl", GOOD)
    call = ["preview", "--model", tiny_model_folder, "--data.files", "my.jsonl", f"--train.{flag[0]}", flag[1]]
    assert message in refused(instruct(*call))


def test_preview_refuses_a_length_that_cuts_answers_off(instruct, tmp_path, tiny_model_folder):
    write_lines(tmp_path / "my.jsonl", *[{**GOOD, "output": "long " * 40}] * 10)
    call = ["preview", "--model", tiny_model_folder, "--data.files", "my.jsonl", "--train.max_length", 64]
    line = refused(instruct(*call))
    assert "max_length 64 truncates 10 of 10 answers" in line
    longest = re.search(r"the longest row has (\d+) tokens", line)
    assert longest
    assert int(longest[1]) > 200  # before the cut: a byte is a token


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


def test_answers_whose_prompts_differ_are_named(instruct, tmp_path):
    make_run(tmp_path / "runs" / "one", emo=["a", "b"], mle=["a"])
    line = refused(instruct("judge", "--judge", "pandalm", "--base-url", "http://127.0.0.1:9/v1"))
    assert "answers mle: 1 prompt of the other side missing, first 'Question 1?'" in line
    line = refused(instruct("judge", "--judge", "pandalm", "--base-url", "http://127.0.0.1:9/v1", "--candidate", "emo"))
    assert "--candidate requires --baseline" in line
    call = [
        "judge",
        "--judge",
        "pandalm",
        "--base-url",
        "http://127.0.0.1:9/v1",
        "--candidate",
        "emo",
        "--baseline",
        "mlee",
    ]
    assert "mlee.json: no such answers; this run has emo, mle" in refused(instruct(*call))


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


def test_flags_of_options_have_the_help_and_default_of_their_field(instruct):
    text = " ".join(instruct("judge", "--help")[1].split())
    assert "--orders {both,one} show each pair in both orders or in one (default: as the card says)" in text
    assert "--engine {vllm,transformers,server}" in text


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


def test_libraries_report_no_usage(monkeypatch):
    names = ("HF_HUB_DISABLE_TELEMETRY", "VLLM_NO_USAGE_STATS")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    assert run_guarded(lambda: None) == 0
    assert [os.environ.get(name) for name in names] == ["1", "1"]


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


@pytest.mark.parametrize(
    ("judge", "line"),
    [
        ("autoj", "judge autoj: needs its 13B weights (26 GB in bfloat16) and a GPU of 40 GB"),
        ("alpaca_eval_gpt4", "judge alpaca_eval_gpt4: needs OPENAI_API_KEY"),
    ],
)
def test_an_unavailable_judge_says_what_it_needs(instruct, tmp_path, judge, line):
    make_run(tmp_path / "runs" / "it", emo=["a"], mle=["b"])
    assert line in refused(instruct("judge", "runs/it", "--judge", judge))


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


def test_a_default_is_named_once():
    for verb in verbs_of(make_parser()).values():
        for action in verb._actions:
            assert (action.help or "").count("(default") <= 1, action.help
