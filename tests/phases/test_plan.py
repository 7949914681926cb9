"""The plan for a machine that is not here: memory, hours and dollars of each phase, each with its formula."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.plans import BEGIN, END, table
from instruct.base.errors import InputError
from instruct.config import load_config
from instruct.phases.costs import Machine, full_name, known_shape, machine
from instruct.phases.plan import download, plan
from instruct.training.estimate import ModelShape

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def offline(monkeypatch):
    """No hub, no model and no rows."""

    def asked(*_, **__):
        raise AssertionError("the hub was asked")

    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", asked)
    monkeypatch.setattr("instruct.data.sources.use_cache_if_unreachable", asked)


def phases_of(config: str, on: str, *flags: str) -> dict:
    return {phase.name: phase for phase in plan(load_config(config, flags), machine(on))}


def test_a_gated_model_is_planned_from_its_published_sizes(offline):
    assert known_shape("meta-llama/Llama-2-7b-hf").parameters == 6_738_415_616
    assert known_shape("Qwen/Qwen2.5-7B").parameters == 7_615_616_512
    assert known_shape("nobody/nothing") is None
    train = phases_of("alpaca_emo", "a100-80gb")["train"]
    # 4 FLOP a parameter and token, 3 epochs, 2 systems, at 40 % of 312 TFLOP/s.
    tokens = 52_002 * 191 * 3
    computing = 4 * 6_738_415_616 * tokens * 2 / (0.4 * 312e12) / 3600
    assert computing < train.hours < computing * 1.03  # the start of two trainings, and small checkpoints
    assert "4 FLOP × 6,738 M parameters × 3 epochs of 52,002 rows of 191 tokens × 2 systems at 40%" in train.formula
    assert 15 < train.gib < 17


def test_every_phase_is_estimated_also_on_a_cpu(offline):
    found = phases_of("demo", "cpu")
    assert list(found) == ["train", "answer", "judge"]
    found |= phases_of("continual_smollm2", "cpu")
    assert all(phase.hours > 0 and phase.formula for phase in found.values())
    assert "2 FLOP" in found["evaluate"].formula


def test_a_text_is_written_at_the_memorys_bandwidth(offline):
    answer = phases_of("alpaca_emo", "h100-80gb")["answer"]
    steps = 7 * 300  # 1,610 texts, 256 at a time
    state = 2 * 32 * 2 * 4096  # bytes a token: keys and values of 32 layers in bfloat16
    step = (6_738_415_616 * 2 + 256 * state * 250) / (0.6 * 3350e9)
    prefill = 2 * 6_738_415_616 * 1610 * 100 / (0.4 * 989.4e12)
    start = 60 + 6_738_415_616 * 2 / 1e9
    assert answer.hours * 3600 == pytest.approx(start + steps * step + prefill, rel=0.01)
    assert "limit 1,024" in answer.what


def test_an_api_judge_costs_its_price(offline):
    judge = phases_of("evol_emo", "8xh100", "--judges.0.model", "gpt-4-turbo")["judge"]
    requests = int(judge.what.split(", ")[1].removesuffix(" requests").replace(",", ""))
    assert judge.gib is None
    assert judge.provider_usd == pytest.approx(requests * (950 * 10 + 100 * 30) / 1e6)
    gone = phases_of("evol_emo", "8xh100")["judge"]
    assert (gone.hours, gone.provider_usd) == (None, 0)
    assert "reported to have been shut down" in gone.formula


def test_models_are_downloaded_once_and_checkpoints_written(offline):
    phases = plan(load_config("paper/llama2_7b_alpaca"), machine("8xh100"))
    fetched = download([*phases, *phases])
    sizes = (6_738_415_616 * 2 + 13_015_864_320 * 2 + 6_738_415_616 * 2) / 1e9
    assert fetched.hours * 3600 == pytest.approx(sizes / 0.1)
    assert fetched.what == "meta-llama/Llama-2-7b-hf, GAIR/autoj-13b, WeOpenML/PandaLM-7B-v1"
    assert download(phases_of("demo", "cpu").values()).hours == 0  # its model is in a Python package
    train = phases[0]
    assert "6 checkpoints of 81 GB" in train.formula  # float32 weights with two moments, every 200 of 1,219 steps
    never = phases_of("paper/llama2_7b_alpaca", "8xh100", "--train.save_strategy", "no")["train"]
    assert (train.hours - never.hours) * 3600 == pytest.approx(2 * 6 * 3 * 4 * 6.738, rel=1e-3)  # two systems


def test_a_plan_is_for_the_machine_named_not_for_this_one(offline):
    """Float16 needs a GPU, which the machine of the plan has."""
    assert phases_of("demo", "t4-16gb", "--model.dtype", "float16")["train"].gib < 1
    with pytest.raises(InputError, match="float16 trains with loss scaling, which needs a GPU"):
        phases_of("demo", "cpu", "--model.dtype", "float16")


def test_what_does_not_fit_is_said(instruct, offline):
    code, stdout, stderr = instruct("plan", "paper/llama2_7b_alpaca", "--on", "a100-80gb")
    assert (code, stderr) == (0, "")
    assert "115.8 of 79 GiB" in stdout
    assert "DOES NOT FIT" in stdout
    assert "total     does not fit: train needs 116 GiB" in stdout
    assert (
        "fits h200-141gb, 8xh100; this machine fits, on the same data: alpaca_emo, paper/llama2_7b_alpaca_one" in stdout
    )
    assert "none was measured" in stdout
    assert "meta-llama/Llama-2-7b-hf: its sizes are those of data/plans/sizes.yaml" in stdout


def test_own_prices_and_machines_replace_the_packaged_ones(instruct, offline, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "data" / "plans" / "machines.yaml"
    own.parent.mkdir(parents=True)
    own.write_text(
        "a100-80gb: {usd_per_hour: 100}\n"
        "mine: {gpus: 1, memory_gib: 40, tflops: 100, bandwidth: 1000, usd_per_hour: 0.5}\n"
    )
    assert machine("a100-80gb").usd_per_hour == 100
    assert machine("a100-80gb").tflops == 312
    code, stdout, _ = instruct("plan", "alpaca_emo", "--on", "mine", "--json")
    assert code == 0
    (planned,) = json.loads(stdout)["plans"].values()
    assert {phase["name"] for phase in planned["phases"]} == {"download", "train", "answer", "judge"}
    own.write_text("mine: {gpus: 1, memory_gib: 40, tflops: 100}\n")
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match=r"unknown machine \(nearest: h100-80gb, a100-80gb\); add it to"):
        machine("80gb")
    assert {name: full_name(name) for name in ("4090", "RTX 4090", "A100", "h100", "8x")} == {
        "4090": "rtx4090-24gb",
        "RTX 4090": "rtx4090-24gb",
        "A100": "a100-80gb",
        "h100": "h100-80gb",
        "8x": "8xh100",
    }


def test_own_rows_are_counted(instruct, offline, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"instruction": "Say it.", "output": "x" * 388}) + "\n" for _ in range(50)))
    train = phases_of("demo", "cpu", "--data.files", str(rows), "--train.max_steps", "-1")["train"]
    assert "of 50 rows of 101 tokens" in train.formula
    assert "rows counted" in train.formula


def test_a_plan_needs_known_rows_and_configs(instruct, offline):
    stderr = instruct("plan", "demo", "--data.card", "writing_prompts", "--on", "cpu")[2]
    assert "writing_prompts: its rows are not here" in stderr
    code, _, stderr = instruct("plan", "papers/*")
    assert code == 2
    assert "papers/*: no packaged config matches; they are: alpaca_emo, " in stderr


def test_a_config_is_planned_for_this_machine(instruct):
    code, stdout, _ = instruct("plan", "demo")
    assert code == 0
    assert "machine   this one: no GPU, " in stdout
    assert "download" not in stdout
    assert "$" not in stdout


def test_a_machine_has_a_speed(tmp_path):
    on = Machine(gpus=1, memory_gib=1, tflops=10, bandwidth=100, usd_per_hour=1)
    shape = ModelShape(parameters=10**9, outside=0, layers=1, hidden=1, vocabulary=1)
    assert on.pass_hours(shape, 2000) == pytest.approx(1 / 3600)  # 4e12 FLOP, of 10 TFLOP/s two fifths
    assert on.reads == pytest.approx(6e10)


@pytest.mark.slow
def test_the_table_of_the_configs_is_that_of_the_page():
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    written = page.partition(BEGIN)[2].partition(END)[0].strip()
    assert written == table(), "write it again: python -m benchmarks.plans"
