"""Bombs in the files of a stranger: a chat template takes bounded memory and time, and is refused."""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path

import pytest
from conftest import byte_tokenizer

from instruct.base import bounds
from instruct.base.bounds import TemplateError, apply_template

GROWING = "{%% set n = namespace(s=%s) %%}{%% for i in range(60) %%}{%% set n.s = %s %%}{%% endfor %%}{{ n.s }}"
LOOP = "{% for i in range(99999) %}"
BOMBS = {
    "product": "{{ 'x' * 10**10 }}",
    "list": "{{ [1] * 10**10 }}",
    "range": "{% for i in range(1000000000) %}x{% endfor %}",
    "sum": GROWING % ("'x'", "n.s + n.s"),
    "concatenation": GROWING % ("'x'", "n.s ~ n.s"),
    "square": GROWING % ("9", "n.s * n.s"),
    "power": "{{ 9 ** (9 ** 9) }}",
    "format": "{{ '%010000000000d' % 1 }}",
    "format method": "{{ '{:010000000000d}'.format(1) }}",
    "constant filter": "{{ 'x'|center(10000000000) }}",
    "method": "{{ 'x'.ljust(10000000000) }}",
    "replace": "{{ ('x' * 100000).replace('x', 'x' * 100000) }}",
    "join": "{{ range(99999)|join('x' * 99999) }}",
    "indent": "{{ [[1]]|tojson(indent=10000000000) }}",
    "block": "{% set x %}" + LOOP + "{{ 'x' * 99999 }}{% endfor %}{% endset %}",
    "recursion": "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "recursive loop": "{% for i in [range(9)] recursive %}{{ loop([i]) }}{% endfor %}",
    "nested loops": "{% for a in [1] %}" * 30 + "{% endfor %}" * 30,
    "nested conditions": "{% if true %}" * 3000 + "{% endif %}" * 3000,
    "nested brackets": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "loops": LOOP * 3 + "{% endfor %}" * 3,
    "idle loops": LOOP.replace("%}", "if range(99999)|list|length > 99999 %}") + "{% endfor %}",
    "calls": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(90) }}",
    "placeholder text": "{{ lipsum(n=100000000) }}",
}  # fmt: skip


def peak() -> int:
    """The most memory that this process has ever had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


@pytest.mark.parametrize("name", BOMBS)
def test_a_template_that_fills_the_memory_or_never_ends_is_refused(name, monkeypatch):
    monkeypatch.setattr(bounds, "_TEMPLATE_SECONDS", 0.5)
    tokenizer = byte_tokenizer()
    tokenizer.name_or_path = "theirs"
    before, begun = peak(), time.thread_time()
    with pytest.raises(TemplateError, match=r"theirs: its chat template needs .*; use another model"):
        apply_template(tokenizer, [{"role": "user", "content": "hi"}], chat_template=BOMBS[name])
    assert peak() - before < 700
    assert time.thread_time() - begun < 10
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


def test_a_template_within_the_bounds_is_rendered_as_ever():
    """Also a chat of 1,000 long turns, and numbers that are computed."""
    tokenizer = byte_tokenizer()
    chat = [{"role": "user", "content": "x" * 2000}] * 1000
    assert apply_template(tokenizer, chat) == "<|user|>" + "<|end|>\n<|user|>".join(["x" * 2000] * 1000) + "<|end|>\n"
    text = "{{ 3 * 4 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ '-' * 3 }} {{ 1.234|round(2) }} {{ 1.2|round(0, 'ceil') }}"
    assert apply_template(tokenizer, chat, chat_template=text) == "12 1024 0.5 --- 1.23 2.0"


@pytest.mark.parametrize("verb", ["preview", "train", "generate", "judge"])
def test_a_model_with_such_a_template_is_refused_by_each_verb_in_one_line(verb, tiny_experiment, tmp_path, instruct):
    import yaml

    Path("model/chat_template.jinja").write_text(BOMBS["product"])
    card = Path("judge/judge.yaml")
    card.write_text(card.read_text().replace("prompt_form: text", "prompt_form: chat"))
    systems = {"systems": {"base": {"objective": "none"}}} if verb == "generate" else {}
    kept = {key: value for key, value in tiny_experiment.items() if not systems or key in ("name", "model", "answers")}
    Path("mine.yaml").write_text(yaml.safe_dump(kept | systems))
    answers = [{"instruction": "Say 1.", "output": f"{number}", "generator": "us"} for number in range(2)]
    for number in range(2):
        Path(f"{number}.json").write_text(json.dumps(answers[number : number + 1]))
    files = ["--candidate", "0.json", "--baseline", "1.json", "--judge", "judge/judge.yaml"]
    files += ["--engine", "transformers"]
    code, _, stderr = instruct(verb, *(files if verb == "judge" else ["mine.yaml"]))
    (line,) = [line for line in stderr.splitlines() if line.startswith("instruct: ")]
    assert (code, "Traceback" in stderr) == (2, False)
    assert f"{tmp_path / 'model'}: its chat template needs more than 512 MiB" in line
