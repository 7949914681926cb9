"""Our model in lm-eval's hands: its own scores, shared prefixes computed once, replies that outlive a killed run."""

from __future__ import annotations

import dataclasses
import json
import random
from datetime import date

import pytest

from instruct.base.models import ModelOptions
from instruct.data.templates import Rendering
from instruct.engines.forward import open_model
from instruct.engines.text_scores import PrefixScorer
from instruct.engines.transformers import TransformersEngine

pytest.importorskip("lm_eval")

from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM

from instruct.measuring.tasks.lm import EngineLM, Replies
from instruct.measuring.tasks.options import TaskOptions


@pytest.fixture(scope="module")
def model(tiny_model):
    return open_model(ModelOptions(name=str(tiny_model), dtype="float32"))


def local_lm(model, network) -> EngineLM:
    options = dataclasses.replace(
        model.engine.options, tokenizer=model.tokenizer, context_length=model.context, batch=8, stop_texts=True
    )
    engine = TransformersEngine(options)
    engine.network, engine.stops = network, model.engine.stops
    return EngineLM(engine, TaskOptions(), "model tiny", model.tokenizer, None, model.context)


def requests(kind: str, arguments: list[tuple]) -> list[Instance]:
    return [Instance(kind, {}, one, 0, metadata=("mine", place, 1)) for place, one in enumerate(arguments)]


def questions() -> list[tuple[str, str]]:
    """Contexts that begin in the same way, choices of one and of several tokens, one that is too long, and none."""
    draw = random.Random(0)
    words = ["night", "dark", "was", "the", "rain", "fine"]
    shown = " ".join(draw.choices(words, k=20))
    found = [
        (f"{shown} {' '.join(draw.choices(words, k=k))} is", f" {choice}")
        for k in (1, 4, 4, 9)
        for choice in ("fine", "dark and fine", "dark and wet", "a", "fine")
    ]
    found += [(" ".join(draw.choices(words, k=400)), " rain"), ("", "rain"), ("", "dark"), ("dark ", "night")]
    return found


def test_log_likelihoods_are_those_of_lm_evals_own_model(model, tmp_path):
    with model.engine.adapted(None) as network:
        ours = local_lm(model, network).keep(Replies(tmp_path / "replies.jsonl"))
        theirs = HFLM(pretrained=network, tokenizer=model.tokenizer, batch_size=4)
        asked = requests("loglikelihood", questions())
        for (value, greedy), (expected, expected_greedy) in zip(
            ours.loglikelihood(asked), theirs.loglikelihood(asked), strict=True
        ):
            assert value == pytest.approx(expected, abs=1e-4)
            assert greedy == expected_greedy
        assert ours.shortened == 1
        texts = requests("loglikelihood_rolling", [(context,) for context, _ in questions() if context])
        assert ours.loglikelihood_rolling(texts) == pytest.approx(theirs.loglikelihood_rolling(texts), rel=1e-5)


def test_a_continuation_that_the_model_would_say_is_greedy(model, tmp_path):
    with model.engine.adapted(None) as network:
        theirs = HFLM(pretrained=network, tokenizer=model.tokenizer, batch_size=4)
        context = "the night was dark and"
        ids = model.tokenizer(context, return_tensors="pt")["input_ids"]
        said = network.generate(ids, max_new_tokens=4, do_sample=False)[0, ids.shape[1] :].tolist()
        pairs = [(("a", str(k)), ids[0].tolist(), said[:k]) for k in (1, 2, 3)]
        pairs += [(("b", ""), ids[0].tolist(), [*said[:2], said[2] - 1])]
        ours = local_lm(model, network).keep(Replies(tmp_path / "replies.jsonl"))
        assert [greedy for _, greedy in ours._loglikelihood_tokens(pairs)] == [True, True, True, False]
        assert [greedy for _, greedy in theirs._loglikelihood_tokens(pairs)] == [True, True, True, False]


def test_what_contexts_share_is_computed_once(model, tmp_path):
    computed = []
    with model.engine.adapted(None) as network:
        handle = network.register_forward_pre_hook(
            lambda _, __, given: computed.append(given["input_ids"].numel()), with_kwargs=True
        )
        try:
            lm = local_lm(model, network).keep(Replies(tmp_path / "replies.jsonl"))
            pairs = [(f"{'shared ' * 20}{word} is", choice) for word in ("one", "two") for choice in (" A", " B")]
            lm.loglikelihood(requests("loglikelihood", pairs))
        finally:
            handle.remove()
    whole = [len(model.tokenizer(context + choice)["input_ids"]) for context, choice in pairs]
    assert sum(computed) < 1.5 * max(whole)


def test_a_killed_run_asks_only_what_was_not_answered(model, tmp_path, monkeypatch):
    path, asked = tmp_path / "replies.jsonl", []
    own = PrefixScorer.scores

    def until_killed(self, rows):
        asked.append(len(rows))
        if len(asked) == 3:
            raise KeyboardInterrupt
        return own(self, rows)

    with model.engine.adapted(None) as network:
        expected = (
            local_lm(model, network)
            .keep(Replies(tmp_path / "other.jsonl"))
            .loglikelihood(requests("loglikelihood", questions()))
        )
        monkeypatch.setattr(PrefixScorer, "scores", until_killed)
        replies = Replies(path)
        with pytest.raises(KeyboardInterrupt):
            local_lm(model, network).keep(replies).loglikelihood(requests("loglikelihood", questions()))
        replies.close()
        with path.open("a") as file:
            file.write('["cut off')  # as it was being written
        kept = len(replies.known)
        assert kept
        asked[:] = [0] * 3
        replies = Replies(path)
        assert len(replies.known) == kept
        found = local_lm(model, network).keep(replies).loglikelihood(requests("loglikelihood", questions()))
        assert sum(asked) == len(set(questions())) - kept
        assert [greedy for _, greedy in found] == [greedy for _, greedy in expected]
        assert [value for value, _ in found] == pytest.approx([value for value, _ in expected], abs=1e-5)
        asked[:] = [0] * 3
        local_lm(model, network).keep(Replies(path)).loglikelihood(requests("loglikelihood", questions()))
        assert sum(asked) == 0


def test_replies_are_kept_but_samples_are_drawn_again(model, tmp_path, monkeypatch):
    path, generated = tmp_path / "replies.jsonl", []
    own = TransformersEngine._generate

    def counted(self, rows):
        generated.append(len(rows))
        return own(self, rows)

    monkeypatch.setattr(TransformersEngine, "_generate", counted)
    greedy = requests("generate_until", [(f"{word} was", {"until": ["."], "max_gen_toks": 4}) for word in ("a", "b")])
    sampled = requests(
        "generate_until", [("a was", {"until": ["."], "max_gen_toks": 4, "do_sample": True, "temperature": 1.0})]
    )
    with model.engine.adapted(None) as network:
        found = [local_lm(model, network).keep(Replies(path)).generate_until(greedy) for _ in range(2)]
        assert found[0] == found[1]
        assert generated == [2]
        assert all(isinstance(reply, str) for reply in found[0])
        for _ in range(2):
            local_lm(model, network).keep(Replies(path)).generate_until(sampled)
    assert generated == [2, 1, 1]
    assert len(path.read_text().splitlines()) == 4
    assert json.loads(path.read_text().splitlines()[0])[1] in found[0]


def test_chats_are_written_in_the_runs_template(model, tmp_path):
    chat = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    with model.engine.adapted(None) as network:
        ours = local_lm(model, network).keep(Replies(tmp_path / "replies.jsonl"))
        theirs = HFLM(pretrained=network, tokenizer=model.tokenizer, batch_size=4)
        for messages, asks in [(chat, True), ([*chat, {"role": "assistant", "content": "Answer:"}], False)]:
            assert ours.apply_chat_template(messages, asks) == theirs.apply_chat_template(messages, asks)
        own = model.tokenizer.chat_template
        template = tmp_path / "mine.jinja"
        template.write_text(
            "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
            "[{{ m.content }}]{% endfor %}{{ strftime_now('%Y') }}"
        )
        rendering = Rendering(str(template), day=date(2001, 2, 3))
        try:
            rendering.prepare(model.tokenizer)
            lm = local_lm(model, network).keep(Replies(tmp_path / "replies.jsonl"), rendering)
            assert lm.apply_chat_template(chat) == "[hi]2001"
        finally:
            model.tokenizer.chat_template = own


def test_what_follows_the_end_of_a_reply_in_its_batch_is_no_part_of_it(model, tmp_path, monkeypatch):
    prompts = ["the night was", "it"]
    asked = requests("generate_until", [(prompt, {"until": ["zzz"], "max_gen_toks": 6}) for prompt in prompts])
    with model.engine.adapted(None) as network:
        ids = model.tokenizer(prompts[0], return_tensors="pt")["input_ids"]
        said = network.generate(ids, max_new_tokens=6, do_sample=False)[0, ids.shape[1] :].tolist()
        monkeypatch.setattr(model.engine, "stops", [said[2]])
        lm = local_lm(model, network).keep(Replies(tmp_path / "replies.jsonl"))
        whole, other = lm.generate_until(asked)
    before = said[: said.index(said[2])]
    assert whole == model.tokenizer.decode(before)
    assert other
