"""A causal language model in transformers on this machine, with LoRA adapters on one base."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from instruct.base.errors import InputError, one_line
from instruct.engines.base import EngineOptions
from instruct.engines.network import NetworkEngine


class CausalEngine(NetworkEngine):
    """Loads the model once and switches between its adapters, which lie next to each other on one base.

    Raises:
        InputError: when the first text is looked at: 4-bit weights without a GPU, weights that cannot be loaded.
    """

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self._adapters: dict[str, str] = {}  # PEFT's name for each adapter folder

    def check(self) -> None:
        super().check()
        self._check_gpu()

    def _check_gpu(self) -> None:
        import torch

        if self._options.quantization and not torch.cuda.is_available():
            raise InputError(
                f"{self._options.subject}: quantization {self._options.quantization} needs a GPU (bitsandbytes); "
                "use a machine with one"
            )

    def _loaded(self) -> Any:
        import torch
        import transformers

        self._check_gpu()
        quantization: dict[str, Any] = {}
        if self._options.quantization:
            config = transformers.BitsAndBytesConfig(
                load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16
            )
            quantization = {"quantization_config": config, "device_map": {"": 0}}
        network = self._from_pretrained(transformers.AutoModelForCausalLM, **quantization)
        # What a model brings along (temperature, repetition penalty) would fill what the decoding leaves open.
        network.generation_config = transformers.GenerationConfig()
        return network

    def _adapted(self, adapter: str) -> Any:
        """A context in which the model answers with `adapter`, or as it is if that is empty."""
        if not adapter:
            return self._network.disable_adapter() if self._adapters else nullcontext()
        if adapter not in self._adapters:
            from peft import PeftModel

            name = f"adapter{len(self._adapters)}"
            try:
                # autocast_adapter_dtype would keep the adapter in float32, which vLLM does not
                if self._adapters:
                    self._network.load_adapter(adapter, name, autocast_adapter_dtype=False)
                else:
                    self._network = PeftModel.from_pretrained(
                        self._network, adapter, name, autocast_adapter_dtype=False
                    )
            except Exception as error:
                reason = one_line(f"{type(error).__name__}: {error}")
                raise InputError(
                    f"{adapter}: the adapter does not fit {self._model} ({reason}); give its own base"
                ) from error
            self._network.eval()
            self._adapters[adapter] = name
        self._network.set_adapter(self._adapters[adapter])
        return nullcontext()

    def close(self) -> None:
        """Drop the model and its adapters."""
        self._adapters = {}
        super().close()
