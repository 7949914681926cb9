"""What every model in transformers on this machine shares: loading its weights, its device, and dropping it."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal

from instruct.engines.base import EngineOptions
from instruct.engines.local import LocalEngine
from instruct.engines.memory import free_memory
from instruct.engines.pickles import unreadable


class NetworkEngine(LocalEngine):
    """A network of transformers, loaded with the first text that is looked at."""

    kind: Literal["vllm", "transformers"] = "transformers"

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self._network: Any = None

    def start(self) -> str:
        """Load the model if it is not loaded; returns transformers' version and the device."""
        import torch
        import transformers

        if self._network is None:
            self._prepare()
            network = self._loaded()
            if not self._options.quantization:  # a quantized model is on its device already, and cannot be moved
                network = network.to("cuda" if torch.cuda.is_available() else "cpu")
            self._network = network.eval()
        return f"transformers {transformers.__version__} {self._network.device.type}"

    @abstractmethod
    def _loaded(self) -> Any:
        """The network with its weights."""

    def _from_pretrained(self, auto_class: Any, **more: Any) -> Any:
        """What `auto_class` loads from the model's safetensors."""
        model, revision = self._safetensors()
        try:
            return auto_class.from_pretrained(
                model, revision=revision, dtype=self._dtype(), trust_remote_code=False, use_safetensors=True, **more
            )
        except Exception as error:  # a torn file, an unknown architecture, ...
            raise unreadable(self._options.model, error) from error

    def _dtype(self) -> str:
        """The options' dtype; bfloat16 by default, or float16 on a GPU without it."""
        import torch

        dtype = self._options.dtype or "bfloat16"
        no_bf16 = torch.cuda.is_available() and not torch.cuda.is_bf16_supported()
        return "float16" if dtype == "bfloat16" and no_bf16 else dtype

    def close(self) -> None:
        """Drop the model."""
        if self._network is not None:
            self._network = None
            free_memory()
