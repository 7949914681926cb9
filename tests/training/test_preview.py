"""What a preview says of chats."""

from __future__ import annotations

from train_configs import tiny_config, write_jsonl

from instruct.training.preview import print_preview


def test_a_preview_counts_what_is_dropped_by_kind(tiny_model_folder, tmp_path, capsys):
    user, answer = {"role": "user", "content": "Say 1."}, {"role": "assistant", "content": "It is 1."}
    call = {"function": {"name": "add", "arguments": {}}}
    rows = [
        *[[user, answer]] * 20,
        [{**user, "mood": "fine"}, {**answer, "mood": "good"}, user],
        [user, {**answer, "content": ""}],
        [user, {"role": "assistant", "content": None, "tool_calls": [call]}],
    ]
    file = write_jsonl(tmp_path / "rows.jsonl", [{"messages": turns} for turns in rows])
    found = print_preview(tiny_config(tiny_model_folder, file))
    assert found.dropped == {
        "turn after the last answer": 1,
        "unused key mood": 2,
        "row without an answer": 1,
        "row that the chat template rejects": 1,
    }
    printed = " ".join(capsys.readouterr().out.split())
    assert "dropped: 1 × turn after the last answer, 2 × unused key mood, 1 × row without an answer" in printed
    assert found.notes[-1].startswith(f"left out: {file}:23: the tokenizer's chat template does not")
