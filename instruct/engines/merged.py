"""LoRA adapters that a vLLM process on a CPU serves merged into the model's weights, one at a time.

vLLM's own LoRA layers copy an adapter's matrices once for each token there, which takes most of the time of a batch.
This is imported by `vllm_process.py` if there are adapters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any


class MergedAdapters:
    """Puts a model with an adapter, or as it was, in the place of the weights of a running `vllm.LLM`.

    PEFT merges one matrix at a time in float32, and vLLM rounds the sum once, to its dtype: in float32 nothing is
    rounded, in bfloat16 the weights differ from those with an adapter beside them. Nothing is subtracted: all weights
    are read from the model's files again. `adapter` is the folder of what is merged; None: nothing.

    Args:
        model: a folder or hub id, whose `revision` it is; its weights are safetensors.
        adapters: folders.

    Raises:
        ValueError: an adapter that cannot be merged a matrix at a time; vLLM's own LoRA layers may serve it.
        Exception: PEFT or transformers cannot load the adapter or the model.
    """

    def __init__(self, model: str, revision: str | None, adapters: Sequence[str]) -> None:
        names = _tensor_names(model, revision)
        self.adapter: str | None = None
        self._layers = {adapter: _layers(model, revision, adapter, names) for adapter in adapters}

    def put(self, llm: Any, adapter: str | None) -> None:
        """Merge `adapter` in the place of what is merged; no request may be running."""
        from vllm.model_executor.model_loader import get_model_loader

        config = llm.llm_engine.vllm_config
        weights = get_model_loader(config.load_config).get_all_weights(config.model_config, None)
        layers = {} if adapter is None else self._layers[adapter]
        llm.collective_rpc("reload_weights", kwargs={"weights_iterator": _merged(weights, layers)})
        llm.reset_prefix_cache()  # which other weights have computed
        self.adapter = adapter


def _tensor_names(model: str, revision: str | None) -> set[str]:
    from huggingface_hub import snapshot_download
    from safetensors import safe_open

    if not (folder := Path(model)).is_dir():
        folder = Path(snapshot_download(model, revision=revision, allow_patterns=["*.safetensors", "*.json"]))
    names: set[str] = set()
    for path in folder.glob("*.safetensors"):
        with safe_open(path, "pt") as file:
            names |= set(file.keys())
    return names


def _layers(model: str, revision: str | None, adapter: str, names: set[str]) -> dict[str, Any]:
    """An adapter's layers by the names of the model's matrices, in a network without weights.

    Args:
        names: of the model's tensors in its files.
    """
    import torch
    from peft import PeftConfig
    from peft.tuners.lora import LoraLayer
    from safetensors import safe_open
    from transformers import AutoConfig

    from instruct.base.networks import load_adapter, new_network

    config = PeftConfig.from_pretrained(adapter)
    if config.init_lora_weights not in (True, False, "gaussian", "orthogonal"):
        raise ValueError(f"{config.init_lora_weights} may change the base's weights")
    with torch.device("meta"):
        network = new_network(AutoConfig.from_pretrained(model, revision=revision))
    network = network.float().to_empty(device="cpu")  # memory that is never written takes none
    network = load_adapter(network, adapter)
    layers = {f"{name}.weight": module for name, module in network.named_modules() if isinstance(module, LoraLayer)}
    for name, layer in layers.items():
        if not isinstance(layer.get_base_layer(), torch.nn.Linear) or (layer.lora_variant and not config.use_dora):
            raise ValueError(f"{name}: no plain LoRA on a matrix")
    with safe_open(Path(adapter) / "adapter_model.safetensors", "pt") as file:
        saved = {name.partition(".lora_") for name in file.keys()}  # noqa: SIM118 (no dict)
    others = {
        layer + dot + kind
        for layer, dot, kind in saved
        if f"{layer}.weight" not in layers or kind not in ("A.weight", "B.weight", "magnitude_vector")
    }
    of_model = {name.removeprefix("base_model.model."): layer for name, layer in layers.items()}
    if unknown := sorted(others) or sorted(of_model.keys() - names):
        raise ValueError(f"{unknown[0]}: no part of a matrix in the model's files")
    return of_model


def _merged(weights: Iterator[tuple[str, Any]], layers: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The model's tensors in the order of its files, those of an adapter's layers merged."""
    import torch

    for name, weight in weights:
        if layer := layers.get(name):
            base = layer.get_base_layer()
            base.weight = torch.nn.Parameter(weight.float(), requires_grad=False)
            layer.merge()
            weight, base.weight = base.weight.data, None
            layer.merged_adapters.clear()
        yield name, weight
