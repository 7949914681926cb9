"""Reward models: scores equal the model's own logits, each text is scored once, nothing is cut."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from scoring import chat, options, score_all
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    Qwen3ForSequenceClassification,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from instruct.base.errors import InputError
from instruct.base.replies import Completion, Failure
from instruct.engines.base import Request
from instruct.engines.network import BATCH_TOKENS, batches
from instruct.engines.rewards import RewardEngine
from instruct.engines.start import make_engine
from instruct.judging.asking import Judge
from instruct.judging.comparison import ComparisonKey
from instruct.judging.options import JudgeOptions
from instruct.judging.presentations import Answers, plan_comparison
from instruct.judging.store import JudgmentStore
from instruct.judging.verdicts import NO_SCORE, read_scores
from instruct.judging.work import judge_plan

CARD = """\
name: scorer
description: a tiny reward model
model: {model}
protocol: reward
order_policy: one
leading_policy: single
context_length: 512
licence: none
"""


CHATS = [chat(f"Why {'so ' * (number % 5)}much?", f"Because {number}. " * (number % 9 + 1)) for number in range(40)]


def scores(engine, chats=CHATS):
    return score_all(engine, chats)


def own_logits(folder: Path) -> list[float]:
    """What the model gives for each chat alone, without padding."""
    network = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts = [tokenizer.apply_chat_template(each, tokenize=False) for each in CHATS]
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    with torch.no_grad():
        return [float(network(input_ids=torch.tensor([row])).logits[0, 0]) for row in ids]


def test_scores_are_the_models_own_logits(reward_model, monkeypatch):
    monkeypatch.setitem(BATCH_TOKENS, "cpu", 600)
    assert scores(RewardEngine(options(reward_model))) == pytest.approx(own_logits(reward_model), abs=2e-5)


@pytest.mark.slow
def test_vllm_and_transformers_give_equal_scores(reward_model):
    by_vllm = scores(make_engine("vllm", options(reward_model)))
    assert by_vllm == pytest.approx(own_logits(reward_model), abs=2e-4)
    assert by_vllm == pytest.approx(scores(make_engine("transformers", options(reward_model))), abs=2e-4)


def test_an_encoder_reads_its_classifier_with_a_mask(tmp_path, tiny_model_folder):
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_folder)
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=600, pad_token_id=tokenizer.pad_token_id, num_labels=1, initializer_range=0.2,
    )  # fmt: skip
    network = RobertaForSequenceClassification(config).eval()
    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    texts = [tokenizer.apply_chat_template(each, tokenize=False) for each in CHATS]
    with torch.no_grad():
        rows = [tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"] for text in texts]
        alone = [float(network(input_ids=row).logits[0, 0]) for row in rows]
    assert scores(RewardEngine(options(tmp_path))) == pytest.approx(alone, abs=2e-5)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_a_model_without_a_padding_token_is_scored_in_batches(family, reward_model, tmp_path):
    """transformers refuses to score such a batch; other code guesses a token, and reads the wrong one."""
    tokenizer = AutoTokenizer.from_pretrained(reward_model)
    tokenizer.pad_token = None
    tokenizer.padding_side = "left"
    tokenizer.save_pretrained(tmp_path)
    torch.manual_seed(1)
    config = AutoConfig.for_model(
        family, vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=16, pad_token_id=None, bos_token_id=None,
        eos_token_id=1, num_labels=1, initializer_range=0.2,
    )  # fmt: skip
    network = AutoModelForSequenceClassification.from_config(config)
    network.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="Cannot handle batch sizes > 1"):
        network(input_ids=torch.ones(2, 3, dtype=torch.long))
    assert scores(RewardEngine(options(tmp_path))) == pytest.approx(own_logits(tmp_path), abs=2e-5)


def test_the_token_scored_is_the_one_that_training_reads(reward_model, tmp_path):
    """A text may end with the padding token, as with Llama's end of a turn; training reads the token before it."""
    shutil.copytree(reward_model, tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(reward_model)
    tokenizer.pad_token = tokenizer.eos_token
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}<|end|>{% endfor %}"
    tokenizer.save_pretrained(tmp_path / "model")
    network = Qwen3ForSequenceClassification.from_pretrained(reward_model, dtype=torch.float32).eval()
    network.config.pad_token_id = tokenizer.pad_token_id
    network.save_pretrained(tmp_path / "model")
    texts = [tokenizer.apply_chat_template(each, tokenize=False) for each in CHATS]
    assert all(text.endswith(tokenizer.pad_token) for text in texts)
    batch = tokenizer(texts, add_special_tokens=False, padding=True, return_tensors="pt")
    with torch.no_grad():
        trained = network(**batch).logits[:, 0].tolist()
    assert scores(RewardEngine(options(tmp_path / "model"))) == pytest.approx(trained, abs=2e-5)


def adapter(base: Path, folder: Path, **lora: Any) -> Path:
    """A reward model as TRL's RewardTrainer saves it: adapter, head and tokenizer. The head is not the base's."""
    torch.manual_seed(3)
    network = AutoModelForSequenceClassification.from_pretrained(base, num_labels=1, dtype=torch.float32)
    lora = {"task_type": "SEQ_CLS", "target_modules": ["q_proj", "up_proj"], "init_lora_weights": False, **lora}
    model = get_peft_model(network, LoraConfig(r=4, **lora))
    model.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.save_pretrained(folder)
    model.config.pad_token_id = tokenizer.pad_token_id
    model.merge_and_unload().save_pretrained(folder.with_name(folder.name + "_whole"))
    tokenizer.save_pretrained(folder.with_name(folder.name + "_whole"))
    return folder


@pytest.mark.parametrize("lora", [{}, {"task_type": None, "modules_to_save": ["score"]}])
def test_an_adapter_is_merged_once_and_scores_as_it_does_with_its_base(
    lora, tiny_model_folder, tmp_path, monkeypatch, printed
):
    monkeypatch.setenv("INSTRUCT_CACHE", str(tmp_path / "cache"))
    folder = adapter(tiny_model_folder, tmp_path / "adapter", **lora)
    engine = RewardEngine(options(folder))
    name = engine.identity["model"]
    assert scores(engine) == pytest.approx(own_logits(tmp_path / "adapter_whole"), abs=2e-5)
    assert "merged with its base model, once" in printed.readouterr().err
    again = RewardEngine(options(folder))
    again.check()
    assert scores(again) == scores(RewardEngine(options(folder)))
    assert again.identity["model"] == name
    assert "merged" not in printed.readouterr().err
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    settings = json.loads((other / "adapter_config.json").read_text())
    (other / "adapter_config.json").write_text(json.dumps({**settings, "lora_alpha": 16}))
    assert RewardEngine(options(other)).identity["model"] != name


def test_adapters_that_are_no_reward_models_are_refused(tiny_model_folder, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("INSTRUCT_CACHE", str(tmp_path / "cache"))
    folder = adapter(tiny_model_folder, tmp_path / "adapter")
    capfd.readouterr()
    settings = json.loads((folder / "adapter_config.json").read_text())

    def refusal(**changed: Any) -> str:
        (folder / "adapter_config.json").write_text(json.dumps({**settings, **changed}))
        with pytest.raises(InputError) as caught:
            RewardEngine(options(folder)).check()
        return str(caught.value)

    assert r"is no reward model (its adapter's task is CAUSAL_LM)" in refusal(task_type="CAUSAL_LM")
    assert "correct base_model_name_or_path" in refusal(base_model_name_or_path=str(tmp_path / "none"))
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    weights = load_file(folder / "adapter_model.safetensors")
    save_file({n: t for n, t in weights.items() if "score" not in n}, folder / "adapter_model.safetensors")
    assert "has no score.weight, which its scores need; train it with modules_to_save" in refusal()
    assert "LOAD REPORT" not in capfd.readouterr().err  # our line says it
    (folder / "adapter_model.safetensors").unlink()
    with pytest.raises(InputError, match=r"the adapter has no adapter_model\.safetensors"):
        RewardEngine(options(folder))


def test_batches_hold_the_tokens_they_may_and_every_text_once():
    lengths = sorted((37 * number % 301 + 1 for number in range(500)), reverse=True)
    found = batches(lengths, 2048)
    assert [place for batch in found for place in batch] == list(range(500))
    padded = [lengths[batch[0]] * len(batch) for batch in found]
    assert max(padded) <= 2048
    assert sum(padded) < 1.05 * sum(lengths)
    # Resuming after some batches forms the others again.
    done = found[8][0]
    assert batches(lengths[done:], 2048) == [[place - done for place in batch] for batch in found[8:]]
    assert batches([5000], 2048) == [[0]]
    assert batches([3, 9, 5, 9], 20) == [[1, 3], [2, 0]]


def test_a_text_that_exceeds_the_context_fails_and_is_not_cut(reward_model):
    engine = RewardEngine(options(reward_model))
    long, short = Request("long", chat("Why?", "x" * 600)), Request("short", CHATS[0])
    replies = {request.key: reply for portion in engine.complete([long, short]) for request, reply in portion}
    assert replies["long"] == Failure(
        f"too long: {engine.tokens(long.prompt)} tokens exceed the context of 512", permanent=True
    )
    assert isinstance(replies["short"], Completion)


def test_the_model_s_own_context_is_a_limit_too(reward_model, tmp_path):
    shutil.copytree(reward_model, tmp_path / "short")
    config = json.loads((reward_model / "config.json").read_text())
    (tmp_path / "short" / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 40}))
    engine = RewardEngine(options(tmp_path / "short"))
    (portion,) = engine.complete([Request("long", chat("Why?", "x" * 60))])
    assert portion[0][1] == Failure(
        f"too long: {engine.tokens(chat('Why?', 'x' * 60))} tokens exceed the context of 40", permanent=True
    )


def test_models_that_are_no_reward_models_are_refused(reward_model, tiny_model_folder, tmp_path):
    with pytest.raises(InputError, match=r"is no reward model \(its architecture is LlamaForCausalLM\)"):
        RewardEngine(options(tiny_model_folder)).check()
    with pytest.raises(InputError, match=r"is no reward model"):
        scores(RewardEngine(options(tiny_model_folder)))
    shutil.copytree(reward_model, tmp_path / "two")
    config = json.loads((reward_model / "config.json").read_text())
    (tmp_path / "two" / "config.json").write_text(json.dumps({**config, "id2label": {"0": "a", "1": "b"}}))
    with pytest.raises(InputError, match=r"has 2 labels; a reward model has one"):
        RewardEngine(options(tmp_path / "two")).check()
    shutil.copytree(reward_model, tmp_path / "plain", ignore=shutil.ignore_patterns("*.jinja"))
    plain = AutoTokenizer.from_pretrained(tmp_path / "plain")
    plain.chat_template = None
    plain.save_pretrained(tmp_path / "plain")
    with pytest.raises(InputError, match=r"has no chat template; choose a reward model that has one"):
        scores(RewardEngine(options(tmp_path / "plain")))
    with pytest.raises(InputError, match="a reward model is not quantized here; leave quantization out"):
        RewardEngine(options(reward_model, quantization="4bit"))
    shutil.copytree(reward_model, tmp_path / "headless")
    weights = load_file(reward_model / "model.safetensors")
    del weights["score.weight"]
    save_file(weights, tmp_path / "headless" / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"has no score\.weight, which would be random"):
        scores(RewardEngine(options(tmp_path / "headless")))
    shutil.copytree(reward_model, tmp_path / "remote")
    remote = {**config, "model_type": "own", "auto_map": {"AutoConfig": "configuration_own.OwnConfig"}}
    (tmp_path / "remote" / "config.json").write_text(json.dumps(remote))
    with pytest.raises(InputError, match="needs code from its repository, which is never run"):
        RewardEngine(options(tmp_path / "remote")).check()


def test_the_higher_score_wins_and_a_margin_is_a_tie():
    assert read_scores(0.0, "1.5", "1").verdict == "first"
    assert read_scores(0.0, "1", "1.5").verdict == "second"
    assert read_scores(0.0, "1", "1").verdict == "tie"
    close = read_scores(0.6, "1.5", "1")
    assert (close.verdict, close.preference, close.ratings) == ("tie", 1.5, (1.5, 1.0))
    reading = read_scores(0.1, "2", "-1")
    assert reading.preference == pytest.approx(2 - 1 / (1 + math.exp(-3)))
    assert read_scores(0.0, "-900", "900").preference == 2.0
    for odd in ("nan", "inf", "-inf", ""):
        assert (read_scores(0.0, odd, "1").verdict, read_scores(0.0, odd, "1").reason) == ("unparsed", NO_SCORE)


@pytest.fixture
def judge(reward_model, tmp_path):
    path = tmp_path / "judges" / "scorer" / "judge.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(CARD.format(model=reward_model))
    return Judge(JudgeOptions(card=str(path), engine="transformers", dtype="float32"))


def side(name: str, answers: list[str]) -> Answers:
    rows = [
        {"dataset": "d", "instruction": f"Why {number}?", "output": answer, "generator": name}
        for number, answer in enumerate(answers)
    ]
    return Answers(name, rows)


def test_each_answer_is_scored_once_and_never_again(judge, tmp_path):
    ours = side("ours", [f"Because of {number}." for number in range(20)])
    theirs = side("theirs", ["Because of 0.", *[f"No idea, {number}." for number in range(1, 20)]])
    with JudgmentStore(tmp_path / "judgments.sqlite") as store, judge.open() as engine:
        counts = judge_plan(judge, plan_comparison(judge, ours, theirs, engine), store, engine)
        assert (counts.asked, counts.without_request) == (38, 1)  # one order, and one identical pair
        assert set(counts.verdicts) <= {"first", "second", "tie"}
        judgments = store.judgments(ComparisonKey("scorer", "ours", "theirs"))
        assert {judgment.position for judgment in judgments} == {"first"}
        for judgment in judgments[1:]:
            assert judgment.ratings is not None
            assert judgment.verdict == ("first" if judgment.ratings[0] > judgment.ratings[1] else "second")
        assert judge_plan(judge, plan_comparison(judge, ours, theirs, engine), store, engine).asked == 0
        # Another comparison of the same answers asks about the new side alone.
        other = side("other", [f"Let me think about {number}." for number in range(20)])
        assert judge_plan(judge, plan_comparison(judge, ours, other, engine), store, engine).asked == 21


def test_a_tie_margin_is_read_from_the_stored_scores(judge, tmp_path):
    ours, theirs = side("ours", ["Yes."] * 9), side("theirs", ["No, never."] * 9)
    path = Path(judge.options.card)
    with JudgmentStore(tmp_path / "judgments.sqlite") as store:
        with judge.open() as engine:
            decided = judge_plan(judge, plan_comparison(judge, ours, theirs, engine), store, engine)
        path.write_text(path.read_text() + "verdict: {tie_margin: 1000}\n")
        again = Judge(judge.options)
        with again.open() as engine:
            tied = judge_plan(again, plan_comparison(again, ours, theirs, engine), store, engine)
    assert decided.verdicts.get("tie", 0) < 9
    assert (tied.asked, tied.verdicts) == (0, {"tie": 9})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("prompt: prompt.txt\n", "protocol reward has no prompt and no reply; remove prompt"),
        ("decoding: {max_tokens: 5}\n", "remove decoding"),
        ("verdict: {words: {first: A, second: B}}\n", "protocol reward compares scores; keep only tie_margin"),
    ],
)
def test_a_reward_card_with_fields_of_other_protocols_is_refused(judge, more, message):
    path = Path(judge.options.card)
    path.write_text(path.read_text() + more)
    with pytest.raises(InputError, match=message):
        Judge(judge.options)
    path.write_text(CARD.format(model="m").replace("order_policy: one", "order_policy: both"))
    with pytest.raises(InputError, match="protocol reward shows no order: set order_policy: one"):
        Judge(judge.options)
