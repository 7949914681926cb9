"""Continuations of a tiny model: to the letter, of fixed length, resumed, and sampled with seeds of their own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from instruct.base.errors import InputError
from instruct.base.models import ModelOptions
from instruct.base.replies import Completion
from instruct.data.cards import Cut
from instruct.data.prefixes import Prefix, PrefixSet
from instruct.generation.continuations import (
    _Draw,
    _write,
    continuation_work,
    continue_texts,
    read_continuations,
)
from instruct.generation.kept import KeptReplies
from instruct.generation.options import ContinuationOptions
from instruct.generation.replies import fingerprint
from instruct.generation.written import ReplyStats, reply_stats

TEXTS = [" It was a dark", "It  was\na dark", "the same words", "the same words", "a", ""]
PREFIXES = PrefixSet(
    "tiny",
    [Prefix(f"a.txt:{i}", text, f" reference {i}", f"a.txt, row {i}") for i, text in enumerate(TEXTS, 1)],
    {"read": len(TEXTS), "kept": len(TEXTS)},
    Cut(prefix="3 words", continuation="6 words"),
)
FILE = "a.txt"


def options(**more: Any) -> ContinuationOptions:
    generation = {"engine": "transformers", "batch_size": 4} | more.pop("generation", {})
    return ContinuationOptions(files=[FILE], generation=generation, **more)


def continued(
    model: Path, folder: Path, systems: dict[str, Any], how: ContinuationOptions, prefixes: Any = PREFIXES
) -> dict[str, ReplyStats]:
    return continue_texts(ModelOptions(name=str(model)), systems, prefixes, how, folder)


def test_every_system_continues_every_prefix_to_the_letter(tiny_model, tiny_adapters, tmp_path):
    from transformers import AutoTokenizer

    systems = {"base": (None, 1.0), "mle": (tiny_adapters["mle"], 1.0), "mle-cold": (tiny_adapters["mle"], 0.1)}
    stats = continued(tiny_model, tmp_path, systems, options(seeds=[3, 1], samples=2))
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    files = {name: read_continuations(tmp_path / f"{name}.json") for name in systems}
    shown = [(each.id, each.text, each.reference) for each in PREFIXES.prefixes]
    for name, rows in files.items():
        assert [(row.seed, row.sample, (row.id, row.prefix, row.reference)) for row in rows] == [
            (seed, sample, each) for seed in (3, 1) for sample in (0, 1) for each in shown
        ]
        assert {(row.tokens, row.finish_reason) for row in rows} == {(6, "length")}
        assert (stats[name].n, stats[name].truncated, stats[name].mean_tokens) == (24, 24, 6.0)
        # Bytes are tokens, so that what was generated can be counted in the text unless it is not UTF-8.
        whole = [row for row in rows if "\ufffd" not in row.continuation]
        assert all(len(tokenizer(row.continuation)["input_ids"]) == 6 for row in whole)
        assert len({row.continuation for row in rows}) > 12
    texts = {name: [row.continuation for row in rows] for name, rows in files.items()}
    assert texts["base"] != texts["mle"] != texts["mle-cold"]


def test_empty_continuations_are_counted(tmp_path):
    draws = [_Draw(prefix, 0, 0) for prefix in PREFIXES.prefixes[:3]]
    work = continuation_work(draws, PREFIXES, options())
    kept = KeptReplies(tmp_path, "base", "fingerprint", work.identities)
    kept.start("engine 1 cpu")
    replies = [("", 1, "stop"), (" \n", 3, "stop"), (" so on", 3, "length")]
    kept.add(enumerate(Completion(text, None, finish, None, tokens) for text, tokens, finish in replies), 30)
    assert reply_stats("tiny", kept) == ReplyStats(3, {}, 0, 2, 1, 5 / 3, "engine 1 cpu", 0.5)
    _write(kept, draws, tmp_path)
    rows = read_continuations(tmp_path / "base.json")
    assert [row.continuation for row in rows] == ["", " \n", " so on"]


def test_whatever_changes_a_continuation_starts_over():
    def of(how: ContinuationOptions, temperature: float = 1.0, prefixes: PrefixSet = PREFIXES) -> str:
        draws = [_Draw(each, seed, 0) for seed in how.seeds for each in prefixes.prefixes]
        work = continuation_work(draws, prefixes, how)
        return fingerprint(["model", ""], ModelOptions(), work, how.generation, temperature)

    first = of(options())
    assert of(options(generation={"engine": "vllm", "gpu_memory_utilization": 0.5})) == first
    renamed = PrefixSet("tiny", [*PREFIXES.prefixes[:-1], Prefix("b", "", None, "")], {}, PREFIXES.cut)
    changed = [
        of(options(), 0.9),
        of(options(seeds=[1])),
        of(options(generation={"min_new_tokens": 0})),
        of(options(generation={"max_new_tokens": 5})),
        of(options(), prefixes=renamed),
    ]
    assert len({first, *changed}) == 6


@pytest.mark.parametrize(
    ("prefix", "how", "temperature", "message"),
    [
        ("x" * 510, {}, 1.0, r"^b.txt, row 7: the prefix 'xxx.* has 510 tokens, 512 hold prefix and continuation, of "
                             r"which the continuation needs 6; shorten it or use a model with a longer context$"),
        ("x", {"samples": 2}, 0.0, "at temperature 0 all samples of a prefix are the same"),
    ],
)  # fmt: skip
def test_what_cannot_be_continued_is_refused_in_one_line(tiny_model, tmp_path, prefix, how, temperature, message):
    prefixes = PrefixSet("b", [Prefix("b.txt:7", prefix, None, "b.txt, row 7")], {"read": 7}, PREFIXES.cut)
    with pytest.raises(InputError, match=message):
        continued(tiny_model, tmp_path, {"base": (None, temperature)}, options(**how), prefixes)
    assert not (tmp_path / "base.json").exists()


def test_the_space_that_a_tokenizer_drops_at_the_start_of_a_text_is_kept(tmp_path):
    """As LLaMA's does: decoded alone, the first token of a continuation would lose its space."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from instruct.engines.base import Decoding, EngineOptions
    from instruct.engines.transformers import TransformersEngine

    words = ["<unk>", "</s>", "▁It", "▁was", "▁dark", "ness"]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="</s>")
    engine = TransformersEngine(EngineOptions("model m", "m", Decoding(), 9, tokenizer=wrapped, continues=True))
    engine.tokenizer, engine.stops = wrapped, [1]
    assert wrapped.decode([4]) == "dark"
    assert engine._completion([2, 3], [4, 5, 0, 1]).text == " darkness<unk>"


def test_a_server_is_asked_for_text_with_the_least_number_of_tokens(fake_server, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    url, requests = fake_server()
    how = options(generation={"engine": "server", "base_url": url})
    prefixes = PrefixSet("tiny", PREFIXES.prefixes[:2], {"read": 2}, PREFIXES.cut)
    continued(Path("served"), tmp_path, {"base": (None, 0.9)}, how, prefixes)
    asked = [(each["path"], each["body"]) for each in requests()]
    assert sorted(body["prompt"] for _, body in asked) == sorted(TEXTS[:2])
    for path, body in asked:
        assert path == "/v1/completions"
        assert (body["max_tokens"], body["min_tokens"], body["temperature"], body["top_p"]) == (6, 6, 0.9, 1.0)
    assert len({body["seed"] for _, body in asked}) == 2


def test_samples_of_transformers_have_the_models_own_probabilities(tiny_model, tmp_path):
    """Unbiased: no top-k, no nucleus, nothing from the model's own generation config."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    count = 2000
    prefixes = PrefixSet("tiny", [Prefix(str(i), "It was", None, "") for i in range(count)], {}, Cut())
    how = options(generation={"batch_size": count, "max_new_tokens": 1, "min_new_tokens": 0})
    continued(tiny_model, tmp_path, {"base": (None, 2.0)}, how, prefixes)
    drawn = Counter(row.continuation for row in read_continuations(tmp_path / "base.json"))
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    network = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.bfloat16)
    with torch.no_grad():
        logits = network(torch.tensor([tokenizer("It was")["input_ids"]])).logits[0, -1].float()
    expected = (logits / 2).softmax(-1)
    for token in expected.argsort(descending=True)[:40].tolist():
        text = tokenizer.decode([token])
        if "\ufffd" not in text and token not in tokenizer.all_special_ids:
            p = float(expected[token])
            assert abs(drawn[text] / count - p) < 5 * (p * (1 - p) / count) ** 0.5, (text, p)
