"""How many tokens a second of given text are scored and embedded, compared with the model's bare forward.

    OMP_NUM_THREADS=1 python -m benchmarks.scoring --model tiny
    OMP_NUM_THREADS=1 python -m benchmarks.scoring --model smollm2 --texts 40

`perplexity` is what `instruct evaluate` does with texts: tokenize them, sort and batch them, take the log-probability
of every token. `features` takes the last token's state of the same texts, cut at 256 tokens, as MAUVE does. Their peers
call the model that transformers loads on the padded ids of the same batches, made beforehand: the whole model with its
logits, and the model without its head. All are in this process, run alternately, and the numbers must be equal.
`entropy` and `distances`, which exponentiate the whole vocabulary for every token, are measured on the same texts.

`smollm2` is SmolLM2-135M, `tiny` a Qwen3 of 4 layers and hidden size 128 with SmolLM2's tokenizer, which shows what is
spent around the model. On a CPU, which may be shared, seconds are those of CPU time in all threads of this process; on
a GPU they are seconds of the clock.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.harness import alternate, ratio, real_rows, write_results

AIM = 0.9  # of the rate of the bare forward


def tiny_model(folder: Path) -> str:
    """Save a tiny model with random weights and SmolLM2's tokenizer."""
    from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

    from instruct.base.models import EMBEDDED_MODEL, model_path

    tokenizer = AutoTokenizer.from_pretrained(model_path(EMBEDDED_MODEL))
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=128, intermediate_size=384, num_hidden_layers=4, head_dim=32,
        num_attention_heads=4, num_key_value_heads=2, pad_token_id=tokenizer.pad_token_id, bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id, tie_word_embeddings=True,
    )  # fmt: skip
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["tiny", "smollm2"], default="smollm2")
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--no-write", action="store_true", help="print only")
    arguments = parser.parse_args()

    from instruct.base.models import EMBEDDED_MODEL, ModelOptions
    from instruct.engines.forward import TextRow, open_model
    from instruct.measuring.texts.predictions import HeldOut, distances, entropies, likelihoods, windows

    rows, source = real_rows()
    texts = [row["output"] for row in rows][: arguments.texts]
    held_out = HeldOut([str(n) for n in range(len(texts))], [""] * len(texts), texts, whole=True)
    with tempfile.TemporaryDirectory() as folder:
        name = tiny_model(Path(folder)) if arguments.model == "tiny" else EMBEDDED_MODEL
        model = open_model(ModelOptions(name=name, dtype=arguments.dtype))
        network = model.engine.network
        clock = time.process_time if network.device.type == "cpu" else time.perf_counter
        found = windows(model, held_out, 1024)
        cut = [ids[:256] for ids in model.encode(texts)]
        whole = list(model._batches([each.row for each in found], model.vocabulary))
        short = list(model._batches([TextRow(ids) for ids in cut], 1))
        results: dict[str, Any] = {}

        def perplexity() -> None:
            results["perplexity"] = likelihoods(model, held_out, windows(model, held_out, 1024)).nats

        def features() -> None:
            results["features"] = model.last_states([ids[:256] for ids in model.encode(texts)])

        def forward() -> None:
            with torch.inference_mode():
                for _, ids in whole:
                    results["forward"] = network(input_ids=ids.to(network.device), use_cache=False).logits

        def body() -> None:
            with torch.inference_mode():
                for _, ids in short:
                    states = network.base_model(input_ids=ids.to(network.device), use_cache=False).last_hidden_state
                    results["body"] = states

        contenders = {
            "perplexity": perplexity,
            "forward": forward,
            "features": features,
            "body": body,
            "entropy": lambda: entropies(model, held_out, found, [1.0]),
            "distances": lambda: distances(model, model, held_out, found),
        }
        seconds = alternate(contenders, arguments.rounds, clock)
        # The bare logits of the last batch, and the last batch's states, give the same numbers.
        places, _ = whole[-1]
        logs = results["forward"].float().log_softmax(-1)
        bare = {found[place].place: 0.0 for place in places}
        for number, place in enumerate(places):
            text = found[place].row
            for at in range(text.start, len(text.ids)):
                bare[found[place].place] -= float(logs[number, at - 1, text.ids[at]])
        parts = [each.place for each in found]
        for place, nats in bare.items():
            if parts.count(place) == 1:
                assert np.isclose(results["perplexity"][place], nats, rtol=1e-3), "not the bare model's numbers"
        for number, place in enumerate(short[-1][0]):
            state = results["body"][number, len(cut[place]) - 1].float().cpu().numpy()
            assert np.allclose(results["features"][place], state, atol=1e-5), "not the bare model's states"
        model.close()
    tokens = sum(len(each.row.ids) for each in found)
    cut_tokens = sum(map(len, cut))
    rates = {
        each: round((cut_tokens if each in ("features", "body") else tokens) / statistics.median(seconds[each]))
        for each in contenders
    }
    row: dict[str, Any] = {
        "model": arguments.model,
        "dtype": arguments.dtype,
        "texts": len(texts),
        "tokens": tokens,
        "tokens_per_second": rates,
        "perplexity_to_forward": ratio(seconds, "forward", "perplexity"),
        "features_to_forward": ratio(seconds, "body", "features"),
        "seconds": {each: [round(value, 3) for value in values] for each, values in seconds.items()},
        "aim": AIM,
    }
    for each in ("perplexity", "features"):
        reached = row[f"{each}_to_forward"]
        print(f"{each}: {rates[each]:,} tokens a second, {reached['median']} of the bare forward's (aim {AIM})")
    print(f"entropy: {rates['entropy']:,} tokens a second; distances: {rates['distances']:,}")
    if not arguments.no_write:
        write_results("scoring", [row], key=("model", "dtype"), source=source)


if __name__ == "__main__":
    main()
