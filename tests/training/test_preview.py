"""What a preview says of chats: bad rows, thinking, and the prompt that a server sends."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import trl
from train_configs import tiny_config
from transformers import AutoTokenizer

from instruct.training.preview import print_preview

USER = {"role": "user", "content": "Say the number 1."}
PLAIN = {"messages": [USER, {"role": "assistant", "content": "It is 1."}]}
THINKS = {"messages": [USER, {"role": "assistant", "content": "It is 1.", "reasoning_content": "Hm."}]}
CALL = {"function": {"name": "add", "arguments": {}}}
CALLS = {"messages": [USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}]}


@pytest.fixture
def thinking_model(tiny_model_folder, tmp_path) -> Path:
    folder = shutil.copytree(tiny_model_folder, tmp_path / "model")
    end = str(AutoTokenizer.from_pretrained(folder).eos_token)
    template = Path(trl.__file__).parent / "chat_templates" / "qwen3_5_think.jinja"
    (folder / "chat_template.jinja").write_text(template.read_text().replace("<|im_end|>", end))
    return folder


def shown(folder: Path, tmp_path: Path, rows: list, capsys) -> tuple[str, object]:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = tiny_config(folder, str(file))
    return " ".join(capsys.readouterr().out.split()), print_preview(config)


@pytest.mark.slow
def test_a_preview_shows_the_prompt_of_a_server_where_it_is_another(thinking_model, tmp_path, capsys):
    _, found = shown(thinking_model, tmp_path, [PLAIN, THINKS], capsys)
    printed = " ".join(capsys.readouterr().out.split())
    plain, thinks = found.rows
    assert plain["server"].endswith("assistant\n<think>\n")
    assert "".join(part["text"] for part in plain["parts"][:1]).endswith("<think>\n\n</think>\n\n")
    assert "server" not in thinks
    assert "a server sends: … <think> training has: <|im_start|>user" in printed
    assert "a server sends: the text before ⟦ training has: <|im_start|>user" in printed
    assert "dropped: nothing" in printed
    assert "note: 1 answer with thinking, 1 without, asked with thinking turned off" in printed


def test_a_preview_names_the_rows_that_are_left_out(tiny_model_folder, tmp_path, capsys):
    _, found = shown(tiny_model_folder, tmp_path, [*[PLAIN] * 20, CALLS], capsys)
    assert found.counts["rejected"] == 1
    assert found.notes[-1].startswith(f"left out: {tmp_path}/rows.jsonl:21: the tokenizer's chat template does not")


def test_a_preview_counts_what_is_dropped_by_kind(tiny_model_folder, tmp_path, capsys):
    noted = {"messages": [{**USER, "mood": "fine"}, {"role": "assistant", "content": "It is 1.", "mood": "good"}, USER]}
    empty = {"messages": [USER, {"role": "assistant", "content": ""}]}
    _, found = shown(tiny_model_folder, tmp_path, [*[PLAIN] * 20, noted, empty, CALLS], capsys)
    assert found.dropped == {
        "turn after the last answer": 1,
        "unused key mood": 2,
        "row without an answer": 1,
        "row that the chat template rejects": 1,
    }
    printed = " ".join(capsys.readouterr().out.split())
    assert "dropped: 1 × turn after the last answer, 2 × unused key mood, 1 × row without an answer" in printed
