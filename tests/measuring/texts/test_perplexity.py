"""Perplexity against a token-by-token reference and TRL's evaluation loss."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

from instruct.base.errors import InputError, InstructError
from instruct.base.models import ModelOptions
from instruct.engines.forward import open_model
from instruct.measuring.texts.options import HeldOutOptions
from instruct.measuring.texts.predictions import likelihoods, oracle_perplexity, perplexity, read_held_out, windows

TEXTS = ["Ünïcödé, first of all.", "x", " = Heading = ", "A longer text with words to learn, " * 4, "Dæta"]


@pytest.mark.parametrize("max_length", [1024, 24])
def test_perplexity_equals_a_token_by_token_reference(held_out, model, tiny_model, max_length):
    network = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    nats, end_nats, tokens, words, sizes = 0.0, 0.0, 0, 0, 0
    for text in TEXTS:
        ids = [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]
        for place in range(1, len(ids)):
            # Windows of max_length tokens begin anew at every half of one.
            half = max_length // 2
            begin = 0 if place < max_length else (place - max_length) // half * half + half
            begin = max(begin, 0)
            with torch.no_grad():
                logits = network(torch.tensor([ids[begin:place]])).logits[0, -1]
            value = -float(logits.log_softmax(-1)[ids[place]])
            nats, tokens = nats + value, tokens + 1
            end_nats += value if place == len(ids) - 1 else 0
        first = tokenizer.decode(ids[:1])
        scored = text[1:] if "\ufffd" in first else text.removeprefix(first)
        words, sizes = words + len(scored.split()), sizes + len(scored.encode())
    texts = held_out(TEXTS)
    found = perplexity(likelihoods(model, texts, windows(model, texts, max_length)))
    of = found[0].details
    assert (found[0].n, of.tokens, of.words, of.bytes) == (len(TEXTS), tokens, words, sizes)
    assert {row.metric: row.value for row in found} == {
        "perplexity": pytest.approx(math.exp(nats / tokens), rel=1e-5),
        "word_perplexity": pytest.approx(math.exp((nats - end_nats) / words), rel=1e-5),
        "byte_perplexity": pytest.approx(math.exp((nats - end_nats) / sizes), rel=1e-5),
    }


def test_perplexity_is_that_of_trl_s_evaluation_loss(held_out, model, tiny_model, tmp_path):
    """One text at a time: TRL averages over batches, and texts of one length give the mean over tokens."""
    from datasets import Dataset

    texts = [TEXTS[3][:40], TEXTS[3][3:43], TEXTS[0][:5] + TEXTS[3][9:44]]
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    lengths = {len(tokenizer(text)["input_ids"]) for text in texts}
    arguments = SFTConfig(
        output_dir=str(tmp_path), per_device_eval_batch_size=1, report_to="none", bf16=False, use_cpu=True
    )
    data = Dataset.from_dict({"text": texts})
    network = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    trainer = SFTTrainer(network, args=arguments, train_dataset=data, eval_dataset=data, processing_class=tokenizer)
    losses = [
        (trainer.evaluate(Dataset.from_list([row]))["eval_loss"], len(row["input_ids"]) - 1)
        for row in trainer.eval_dataset.select_columns(["input_ids"]).to_list()
    ]
    expected = math.exp(sum(loss * count for loss, count in losses) / sum(count for _, count in losses))
    found, *_ = perplexity(likelihoods(model, held_out(texts), windows(model, held_out(texts), 1024)))
    assert found.details.tokens == sum(count for _, count in losses)
    assert found.value == pytest.approx(expected, rel=1e-4)
    assert len(lengths) >= 1


def test_only_what_follows_a_prefix_is_scored_and_no_end_token(held_out, model):
    texts = held_out(["ds to learn", " more"], ["a few wor", "words"])
    found = windows(model, texts, 1024)
    values = likelihoods(model, texts, found)
    assert values.end_nats.tolist() == [0, 0]
    assert values.words.tolist() == [3, 1]
    assert [model.tokenizer.decode(each.row.ids[each.row.start :]) for each in found][1] == " more"


def test_every_token_of_a_long_text_is_scored_once_with_half_a_window_before_it(held_out, model):
    texts = held_out([TEXTS[3] * 3])
    (ids,) = model.encode(texts.texts)
    found = windows(model, texts, 30)
    assert [token for each in found for token in each.row.ids[each.row.start :]] == [*ids[1:], model.end]
    assert all(len(each.row.ids) <= 30 for each in found)
    assert all(each.row.start >= 15 for each in found[1:])


def test_a_prefix_without_room_for_its_text_is_refused(held_out, model):
    texts = held_out(["more"], ["x" * 600])
    with pytest.raises(InputError, match=r"prefix '0' has 600 tokens, and 512 are read at a time; shorten the prefi"):
        windows(model, texts, 1024)


def test_a_diverged_model_is_reported_by_its_name(held_out, tiny_model, make_model, tmp_path):
    folder = make_model(tmp_path / "nan")
    network = AutoModelForCausalLM.from_pretrained(folder)
    network.lm_head.weight.data.fill_(float("nan"))
    network.save_pretrained(folder)
    model, texts = open_model(ModelOptions(name=str(folder))), held_out(TEXTS)
    with pytest.raises(InstructError, match=rf"model {folder}: gives NaN for a text; its training has diverged"):
        likelihoods(model, texts, windows(model, texts, 100))


def test_held_out_text_is_read_to_the_letter_and_blank_lines_are_counted(tmp_path):
    path = tmp_path / "held_out.txt"
    path.write_text(" first \n\n \nsecond\n")
    found = read_held_out(HeldOutOptions(files=[str(path)]))
    assert found.texts == [" first ", "second"]
    assert found.ids == [f"{path}:1", f"{path}:4"]
    whole = read_held_out(HeldOutOptions(files=[str(path)], documents="file"))
    assert whole.texts == [path.read_text()]
    assert whole.sha256 != found.sha256


def test_rows_with_prompts_are_no_held_out_text(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"prompt": "a", "completion": "b"}) + "\n")
    with pytest.raises(InputError, match=r"held_out: .*rows.jsonl has prompts and answers; give plain texts"):
        read_held_out(HeldOutOptions(files=[str(path)]))


def test_held_out_text_in_another_encoding_is_refused_with_its_row(tmp_path):
    path = tmp_path / "held_out.txt"
    path.write_bytes("Zürich is näher.\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"row 1: byte 0xfc: .* set evaluation.texts.held_out.encoding to"):
        read_held_out(HeldOutOptions(files=[str(path)]))
    assert read_held_out(HeldOutOptions(files=[str(path)], encoding="latin-1")).texts == ["Zürich is näher."]


def test_the_texts_of_a_card_for_prefixes_can_be_held_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("A text.\n")
    card = {"name": "mine", "purpose": "continue", "source": {"files": ["texts.txt"]}, "format": "text"}
    card |= {"cut": {"prefix": "1 words", "continuation": "1 words"}, "licence": "none"}
    (tmp_path / "mine.yaml").write_text(json.dumps(card))
    assert read_held_out(HeldOutOptions(card="mine.yaml")).texts == ["A text."]


def test_likelihoods_are_in_float64(held_out, model):
    texts = held_out(TEXTS)
    assert likelihoods(model, texts, windows(model, texts, 100)).nats.dtype == np.float64


def test_continuations_have_a_perplexity_for_all_and_for_each_seed_and_empty_ones_are_counted(model, held_out):
    texts = held_out(["ds to learn", "", " more", " other words"], ["a few wor", "a few", "words", "words and"])
    values = likelihoods(model, texts, windows(model, texts, 1024))
    (found,) = oracle_perplexity(values, [1, 1, 2, 1], "tiny")
    assert (found.n, found.details.empty, found.details.tokens) == (4, 1, int(values.tokens.sum()))
    assert found.value == pytest.approx(math.exp(values.nats.sum() / values.tokens.sum()))
    first = [0, 3]
    assert found.details.by_seed["1"] == pytest.approx(math.exp(values.nats[first].sum() / values.tokens[first].sum()))
    assert found.details.by_seed["2"] == pytest.approx(math.exp(values.nats[2] / values.tokens[2]))
    human = held_out([" the"] * 3, ["a few wor", "a few", "words"])
    own = likelihoods(model, human, windows(model, human, 1024))
    (beside,) = oracle_perplexity(values, [1, 1, 2, 1], "tiny", own)
    assert beside.details.human == pytest.approx(perplexity(own)[0].value)
    assert beside.value == found.value
    assert oracle_perplexity(values, [1, 3, 2, 1], "tiny")[0].details.by_seed.keys() == {"1", "2"}


def test_nothing_but_empty_continuations_has_no_perplexity(model, held_out):
    texts = held_out(["", ""], ["a few", "words"])
    (found,) = oracle_perplexity(likelihoods(model, texts, windows(model, texts, 1024)), [0, 0], "tiny")
    assert (found.value, found.details.empty) == (None, 2)
