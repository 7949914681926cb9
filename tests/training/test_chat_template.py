"""`data.chat_template`: the text that is trained is the text that is asked, saved and served."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from json_files import write_json
from train_configs import tiny_config, train, write_rows
from transformers import AutoTokenizer

from instruct.config import make_config
from instruct.phases.answer import Answering
from instruct.run.directory import RunDirectory
from instruct.training.rows import load_training_rows

# Its prompts say which arguments they were rendered with, and on which day.
TEMPLATE = (
    "{{ strftime_now('%Y-%m-%d') }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% if not enable_thinking %}off:{% endif %}{% endif %}"
)


@pytest.fixture
def template(tmp_path: Path) -> Path:
    file = tmp_path / "own.jinja"
    file.write_text(TEMPLATE)
    return file


@pytest.fixture
def asked(tmp_path: Path, fake_server, monkeypatch: pytest.MonkeyPatch):
    """What a server is sent of a prompt: tokens, since it renders chats otherwise."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    url, requests = fake_server()
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("Hi\n")

    def ask(config, run) -> str:
        config.answers.files, config.answers.generation.engine = [str(prompts)], "server"
        config.answers.generation.base_url = url
        Answering(config).generate(run)
        sent = requests()[-1]  # after the check of the weights
        assert sent["path"] == "/v1/completions"
        return AutoTokenizer.from_pretrained(run.adapters / "emo").decode(sent["body"]["prompt"])

    return ask


def config_of(model: Path, rows: str, template: Path, **data):
    sections = {"data": {"files": [rows], "template": "chat", "chat_template": str(template), **data}}
    return tiny_config(model, rows, **sections)


def test_the_template_its_arguments_and_one_day_are_trained_asked_and_saved(
    tiny_model_folder: Path, tmp_path: Path, template: Path, asked
) -> None:
    thinks = {"chat_template_kwargs": {"enable_thinking": True}, "empty_thinking": "train"}
    config = config_of(tiny_model_folder, write_rows(tmp_path / "rows.jsonl"), template, **thinks)
    run = RunDirectory(tmp_path / "run")
    run.start(config.model_dump(mode="json"))
    manifest = json.loads(run.manifest_path.read_text())
    run.manifest_path.write_text(json.dumps({**manifest, "created": "2024-02-29T23:59:59+00:00"}))
    data = load_training_rows(config.data, config.model, config.train, run.folder)
    text = data.tokenizer.decode(data.encoded.encoded[0]["input_ids"])
    assert text.startswith("2024-02-29<|user|>Say the number 0.<|end|><|assistant|>The number is 0.")
    data.close()

    train(run.folder, config)
    saved = AutoTokenizer.from_pretrained(run.adapters / "emo")
    assert "strftime_now" in saved.chat_template  # a server writes its own day

    assert asked(config, run) == "2024-02-29<|user|>Hi<|end|><|assistant|>"

    # A changed file is another template: answers to its prompts are other answers.
    template.write_text(TEMPLATE.replace("<|user|>", "<|system|>").replace("{{ m.role }}", "system"))
    assert asked(config, run).startswith("2024-02-29<|system|>Hi")


def test_trls_own_key_is_the_same_key(tiny_model_folder: Path, tmp_path: Path, template: Path) -> None:
    content = {"name": "tiny", "model": {"name": str(tiny_model_folder)}, "data": {"files": ["rows.jsonl"]}}
    config = make_config({**content, "train": {"chat_template_path": str(template)}}, [], "test")
    assert config.data.chat_template == str(template)
    assert "chat_template_path" not in config.train


@pytest.mark.parametrize(("thinking", "ending"), [(20, "<|assistant|>"), (3, "off:")])
def test_answers_are_asked_in_the_mode_of_most_trained_answers(
    tiny_model_folder: Path, tmp_path: Path, asked, thinking: int, ending: str
) -> None:
    template = tmp_path / "own.jinja"
    template.write_text(
        "{% for m in messages %}<|{{ m.role }}|>{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>"
        "{% endif %}{% if m.role == 'assistant' and loop.last and enable_thinking is defined and not enable_thinking %}"
        "off:{% endif %}{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>"
        "{% if enable_thinking is defined and not enable_thinking %}off:{% endif %}{% endif %}"
    )
    user, answer = {"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "It is 4."}
    rows = [{"messages": [user, {**answer, "reasoning_content": "2"}]}] * thinking + [{"messages": [user, answer]}] * 8
    config = config_of(tiny_model_folder, str(write_json(tmp_path / "rows.jsonl", rows)), template)
    config.train |= {"max_steps": 1}
    run = train(tmp_path / "run", config)
    assert asked(config, run) == f"<|user|>Hi<|end|>{'<|assistant|>' if ending == 'off:' else ''}{ending}"
    assert run.manifest()["steps"]["answers"]["inputs"]["chat"]["thinks"] == (ending != "off:")
