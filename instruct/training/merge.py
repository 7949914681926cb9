"""Merging an adapter into its base model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from instruct.base.errors import InputError
from instruct.base.files import new_folder, replace_folder, write_atomically
from instruct.base.models import compute_dtype, model_path
from instruct.base.networks import load_adapter, load_network
from instruct.engines.canary import Canary, Outcome, compare_scores, read_canary
from instruct.run.directory import RunDirectory
from instruct.run.lock import merged_of, only_process
from instruct.training.generation_config import settle_generation_config
from instruct.training.model_card import model_card
from instruct.training.options import TrainingOptions
from instruct.training.rows import load_tokenizer, unreachable_model
from instruct.training.train import check_weights, model_arguments


def merge_adapter(config: TrainingOptions, run: RunDirectory, system: str | None = None) -> list[Path]:
    """Write `merged/NAME` for each LoRA system of a run: a whole model as safetensors, with its tokenizer.

    PEFT merges the adapter in float32. The merged model has the log-probabilities that training kept, see
    engines/canary.py, before it is rounded once, to the dtype that the model was trained in.

    Raises:
        InputError: an unknown system, one that is not an adapter, or one that is another model once it is merged.
    """
    import torch

    names = [system] if system else list(config.trained)
    merged = []
    for name in names:
        adapter = run.adapters / name
        if not (adapter / "adapter_config.json").is_file():
            raise InputError(f"{adapter}: has no adapter_config.json; name a LoRA system of this run")
        check_weights(run, name)
        arguments = {**model_arguments(config.model), "dtype": torch.float32}
        try:
            base = load_network(model_path(config.model.name), **arguments)
        except OSError as error:
            raise unreachable_model(config.model.name, error) from None
        tokenizer = load_tokenizer(config.model, config.data, config.train.get("eos_token"))
        settle_generation_config(base, tokenizer)
        model = _merged(load_adapter(base, adapter), adapter).to(getattr(torch, compute_dtype(config.model)))
        folder = run.folder / "merged" / name
        record = run.manifest()["steps"][f"train/{name}"]
        card = model_card(config, name, record["results"], record["config"]["train"], merged=True)
        with only_process(run, merged_of(name)), new_folder(folder) as making:
            model.save_pretrained(making)
            tokenizer.save_pretrained(making)
            write_atomically(making / "README.md", card)
            replace_folder(folder, making)
        merged.append(folder)
    return merged


def _merged(adapted: Any, adapter: Path) -> Any:
    """The network of a PeftModel in float32 with its adapter merged."""
    import torch
    from peft.tuners.tuners_utils import BaseTunerLayer

    base = adapted.get_base_model()
    words, head = base.get_input_embeddings(), base.get_output_embeddings()
    # A head that is tied to an embedding does not see its adapter, so it gets its own weights.
    adapted_words = isinstance(words, BaseTunerLayer) and not isinstance(head, BaseTunerLayer)
    if adapted_words and words.get_base_layer().weight is head.weight:
        head.weight = torch.nn.Parameter(head.weight.detach().clone(), requires_grad=False)
        for config in (base.config, base.config.get_text_config()):
            config.tie_word_embeddings = False
    network = adapted.merge_and_unload()
    if canary := read_canary(adapter):
        weights, reason = _compare_with_trained(network, canary)
        if weights == "wrong":
            raise InputError(
                f"{adapter}: merged, it is not the model that was trained: {reason}; use the base that it was trained "
                "on, unchanged, or answer with the adapter"
            )
    return network


def _compare_with_trained(network: Any, canary: Canary) -> Outcome:
    """Whether a network in float32 has the weights that were trained."""
    import torch

    ids = torch.tensor([canary.ids])
    with torch.inference_mode():
        logs = network.eval()(input_ids=ids, use_cache=False).logits[0, -len(canary.ids) :].log_softmax(-1)
    scores = [float(logs[place - 1, canary.ids[place]]) for place in canary.places]
    # An adapter that changes the base when it is made (PiSSA) was trained beside rounded weights: their noise counts.
    kept = zip(canary.base, canary.computed or (), canary.trained, strict=canary.computed is not None)
    return compare_scores(canary, scores, [before + computed - after for before, computed, after in kept] or None)
