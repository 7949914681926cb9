"""A causal language model in transformers on this machine, with LoRA adapters on one base."""

from __future__ import annotations

import gc
from contextlib import nullcontext
from typing import Any, Literal

from instruct.base.errors import InputError, one_line
from instruct.engines.base import EngineOptions
from instruct.engines.local import LocalEngine
from instruct.engines.pickles import unreadable


class CausalEngine(LocalEngine):
    """Loads the model once and switches between its adapters, which lie next to each other on one base.

    Raises:
        InputError: when the first text is looked at: 4-bit weights without a GPU, weights that cannot be loaded.
    """

    kind: Literal["vllm", "transformers"] = "transformers"

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self._network: Any = None
        self._loaded: dict[str, str] = {}  # adapter folder to PEFT's name for it

    def start(self) -> str:
        """Load the model if it is not loaded; returns transformers' version and the device."""
        import transformers

        if self._network is None:
            self._prepare()
            self._load()
        return f"transformers {transformers.__version__} {self._network.device.type}"

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

    def _load(self) -> None:
        import torch
        import transformers

        self._check_gpu()
        cuda = torch.cuda.is_available()
        dtype: Any = self._options.dtype or "bfloat16"
        if dtype == "bfloat16" and cuda and not torch.cuda.is_bf16_supported():
            dtype = "float16"
        quantization: dict[str, Any] = {}
        if self._options.quantization:
            config = transformers.BitsAndBytesConfig(
                load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16
            )
            quantization = {"quantization_config": config, "device_map": {"": 0}}
        model, revision = self._safetensors()
        try:
            network: Any = transformers.AutoModelForCausalLM.from_pretrained(
                model, revision=revision, dtype=dtype, trust_remote_code=False, use_safetensors=True, **quantization
            )
        except Exception as error:  # a torn file, an unknown architecture, ...
            raise unreadable(self._model, error) from error
        # A quantized model is on its device already, and cannot be moved.
        self._network = (network if quantization else network.to("cuda" if cuda else "cpu")).eval()
        # What a model brings along (temperature, repetition penalty) would fill what the decoding leaves open.
        self._network.generation_config = transformers.GenerationConfig()

    def _adapted(self, adapter: str) -> Any:
        """A context in which the model answers with `adapter`, or as it is if that is empty."""
        if not adapter:
            return self._network.disable_adapter() if self._loaded else nullcontext()
        if adapter not in self._loaded:
            from peft import PeftModel

            name = f"adapter{len(self._loaded)}"
            try:
                # autocast_adapter_dtype would keep the adapter in float32, which vLLM does not
                if self._loaded:
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
            self._loaded[adapter] = name
        self._network.set_adapter(self._loaded[adapter])
        return nullcontext()

    def close(self) -> None:
        """Drop the model."""
        if self._network is None:
            return
        import torch

        self._network = None
        self._loaded = {}
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
