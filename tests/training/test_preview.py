"""What a preview says of chats."""

from __future__ import annotations

from train_configs import tiny_config, write_jsonl

from instruct.training.preview import print_preview


def test_a_preview_says_what_is_not_trained_on(tiny_model_folder, tmp_path, capsys):
    user, answer = {"role": "user", "content": "Say 1."}, {"role": "assistant", "content": "It is 1."}
    call = {"function": {"name": "add", "arguments": {}}}
    rows = [
        *[[user, answer]] * 20,
        [{**user, "mood": "fine"}, {**answer, "mood": "good"}, user],
        [user, {**answer, "content": ""}],
        [user, {"role": "assistant", "content": None, "tool_calls": [call]}],
    ]
    file = write_jsonl(tmp_path / "rows.jsonl", [{"messages": turns} for turns in rows])
    print_preview(tiny_config(tiny_model_folder, file))
    printed = " ".join(capsys.readouterr().out.split())
    for note in ("1 turn after a chat's last answer", "unused key mood", f"left out: {file}:23: the tokenizer's chat"):
        assert note in printed
