"""A chat template of a stranger takes bounded memory and time, and is refused."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest
import yaml
from conftest import byte_tokenizer

from instruct.base import trial
from instruct.base.chat_template import TemplateError, apply_template

CHAT = [{"role": "user", "content": "hi"}]
LOOP = "{% for i in range(99999) %}"
BOMBS = {
    "product": "{{ 'x' * 10**10 }}",
    "power": "{{ 9 ** (9 ** 9) }}",
    "replace": "{{ ('x' * 100000).replace('x', 'x' * 100000) }}",
    "loops": LOOP * 3 + "{% endfor %}" * 3,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_template_that_fills_the_memory_or_never_ends_is_refused(name, monkeypatch):
    monkeypatch.setattr(trial, "SECONDS", 1)
    tokenizer = byte_tokenizer()
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, time.monotonic()
    for _ in range(2):
        with pytest.raises(TemplateError):
            apply_template(tokenizer, CHAT, chat_template=BOMBS[name])
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10) - before < 100
    assert time.monotonic() - begun < 20


def test_a_model_with_such_a_template_is_refused_in_one_line(tiny_experiment, tmp_path, instruct):
    Path("model/chat_template.jinja").write_text(BOMBS["product"])
    kept = {key: tiny_experiment[key] for key in ("name", "model", "answers")}
    Path("mine.yaml").write_text(yaml.safe_dump(kept | {"systems": {"base": {"objective": "none"}}}))
    code, _, stderr = instruct("generate", "mine.yaml")
    (line,) = [line for line in stderr.splitlines() if line.startswith("instruct: ")]
    assert (code, "Traceback" in stderr) == (2, False)
    assert f"{tmp_path / 'model'}: its chat template needs more than" in line
