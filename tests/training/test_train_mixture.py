"""Training on several data sets: what a run records of them, and what its card, preview and answers say."""

from __future__ import annotations

import json

import pytest
from train_configs import tiny_config, train, write_rows

from instruct.errors import InputError
from instruct.experiment import answer_template
from instruct.reporting.provenance import config_summary
from instruct.training.preview import print_preview


def chats(path) -> str:
    turns = [{"role": ("user", "assistant")[i % 2], "content": f"Turn {i}."} for i in range(5)]
    path.write_text((json.dumps({"messages": turns}) + "\n") * 8)
    return str(path)


@pytest.fixture
def data(tmp_path) -> dict:
    rows, others = write_rows(tmp_path / "rows.jsonl"), chats(tmp_path / "chats.jsonl")
    sources = [{"files": [rows], "weight": 0.75, "template": "alpaca"}, {"files": [others], "weight": 0.25}]
    return {"mixture": sources, "stopping_strategy": "all_exhausted"}


def test_a_run_on_a_mixture_records_what_each_data_set_contributed(tmp_path, tiny_model_folder, data, capsys):
    config = tiny_config(tiny_model_folder, "", data=data)
    config.train["max_steps"] = 2
    run = train(tmp_path / "run", config)
    results = run.manifest()["steps"]["train/emo"]["results"]
    assert results["rows"] == {"read": 32, "kept": 32, "truncated": 0, "empty": 0, "fully_masked": 0}
    assert [(part["data"], part["weight"], part["kept"]) for part in results["mixture"]] == [
        ("rows.jsonl", 0.75, 24),
        ("chats.jsonl", 0.25, 8),
    ]
    assert results["turns"] == {"answers": 16, "opening": 0, "empty": 0, "after": 8}
    card = (run.adapters / "emo" / "README.md").read_text()
    assert "`rows.jsonl (0.75), chats.jsonl (0.25)`: 32 complete rows" in " ".join(card.split())
    assert config_summary(run.config())["data"] == "rows.jsonl (0.75), chats.jsonl (0.25)"
    file = run.adapters / "emo" / "adapter_model.safetensors"
    before = file.stat().st_mtime_ns
    train(tmp_path / "run", config)
    assert file.stat().st_mtime_ns == before  # trained already, from the same mixture

    capsys.readouterr()
    print_preview(config, prompts=["Say the number 3.", "Turn 0", "Something else"])
    shown = capsys.readouterr().out
    assert "32 rows read, template alpaca and chat" in shown
    assert "overlap: 2 of 3 evaluation prompts (66.7 %) are in the training data word for word" in shown
    drawn = results["mixture"][1]["drawn"]
    assert f"chats.jsonl: weight 0.25, {drawn} rows of an epoch" in shown
    assert "note: chats.jsonl: 8 turns follow a chat's last answer: left out" in shown


def test_a_mixture_of_templates_needs_one_for_the_answers(tiny_model_folder, data):
    config = tiny_config(tiny_model_folder, "", data=data)
    with pytest.raises(InputError, match=r"its data sets have different templates \(alpaca, chat\); set answers.templ"):
        answer_template(config)
    config.answers.template = "alpaca"
    assert answer_template(config) == "alpaca"
    data["mixture"][0]["template"] = "chat"
    assert answer_template(tiny_config(tiny_model_folder, "", data=data)) == "chat"
