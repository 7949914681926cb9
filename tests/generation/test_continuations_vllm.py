"""Real vLLM continues with base and adapter: fixed lengths, samples that do not depend on their batch."""

from __future__ import annotations

import pytest

from instruct.base.models import ModelOptions
from instruct.data.cards import Cut
from instruct.data.prefixes import Prefix, PrefixSet
from instruct.generation.continuations import continue_texts, read_continuations
from instruct.generation.options import ContinuationOptions

TEXTS = [" It was a dark and", "Call me", "The capital of France is", "The capital of France is", "In the year", "A"]
PREFIXES = PrefixSet("tiny", [Prefix(str(i), text, None, f"row {i}") for i, text in enumerate(TEXTS)], {}, Cut())


@pytest.mark.slow
@pytest.mark.xdist_group("vllm")
def test_vllm_continues_to_the_letter_with_samples_that_do_not_depend_on_their_batch(
    smollm2, make_adapter, tmp_path, monkeypatch, shared_vllm
):
    pytest.importorskip("vllm", reason="vLLM is not installed")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # on a busy machine threads spend minutes waiting for each other
    model = ModelOptions(name=smollm2, dtype="float32")
    generation = {"engine": "vllm", "max_new_tokens": 6, "max_model_len": 64, "batch_size": 4}
    systems = {
        "base": (None, 1.0),
        "tuned": (make_adapter(smollm2, tmp_path / "adapter", 1, 0.05), 1.0),
        "cold": (None, 0.05),
    }
    stats = continue_texts(
        model, systems, PREFIXES, ContinuationOptions(files=["-"], samples=2, generation=generation), tmp_path / "out"
    )
    found = {name: read_continuations(tmp_path / "out" / f"{name}.json") for name in systems}
    for name, rows in found.items():
        assert {row.tokens for row in rows} == {6}
        assert {row.finish_reason for row in rows} == {"length"}
        assert stats[name].engine.startswith("vllm ")
        assert stats[name].n == 12
    base, tuned, cold = ([row.continuation for row in found[name]] for name in ("base", "tuned", "cold"))
    assert base != tuned
    assert len(set(base)) == 12  # a seed of its own for each sample, also of equal prefixes
    assert cold[2] == cold[3] == cold[8]
    assert cold[2].startswith(" Paris")  # the space is the model's own first token

    # The same engine settings serve a run whose batches are different: the first two prefixes are left out.
    fewer = PrefixSet("tiny", PREFIXES.prefixes[2:], {}, Cut())
    again = ContinuationOptions(files=["-"], generation=generation)
    continue_texts(model, systems, fewer, again, tmp_path / "fewer")
    assert [row.continuation for row in read_continuations(tmp_path / "fewer" / "base.json")] == base[2:6]
