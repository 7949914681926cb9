"""transformers' `generate`: the engine where vLLM is not installed."""

from __future__ import annotations

import gc
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from instruct.errors import InputError, one_line
from instruct.generation.options import GenerationConfig
from instruct.generation.serving import Completion, Serving, answer_limits, completion_of, prompt_seed


class TransformersEngine:
    """`generate` of transformers, prompts padded on the left; adapters stand side by side on one base.

    Samples (temperature above 0) are seeded a batch, so they repeat for the same batches only.

    Raises:
        InputError: a model or an adapter that cannot be loaded.
    """

    def __init__(self, serving: Serving) -> None:
        import torch
        import transformers

        self._serving = serving
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        bf16 = self._device == "cpu" or torch.cuda.is_bf16_supported()
        try:
            self._model: Any = transformers.AutoModelForCausalLM.from_pretrained(
                serving.model,
                revision=serving.revision,
                dtype=torch.bfloat16 if bf16 else torch.float16,
                trust_remote_code=False,
                use_safetensors=True,
            )
        except Exception as error:  # a torn file, an unknown architecture, ...: each library raises its own
            reason = one_line(f"{type(error).__name__}: {error}")
            raise InputError(
                f"model {serving.model}: transformers cannot load it ({reason}); check the folder"
            ) from error
        self._model.to(self._device).eval()
        # What a model brings along (temperature, repetition penalty) would fill what the request leaves open.
        self._model.generation_config = transformers.GenerationConfig()
        self._loaded: dict[Path, str] = {}
        self.name = f"transformers {transformers.__version__} {self._device}"

    def _switch(self, adapter: Path | None) -> Any:
        """A context in which the model answers with `adapter`."""
        if adapter is None:
            return self._model.disable_adapter() if self._loaded else nullcontext()
        if adapter not in self._loaded:
            from peft import PeftModel

            name = f"adapter{len(self._loaded)}"
            try:
                # autocast_adapter_dtype would keep the adapter in float32, which vLLM does not
                if self._loaded:
                    self._model.load_adapter(adapter, name, autocast_adapter_dtype=False)
                else:
                    self._model = PeftModel.from_pretrained(self._model, adapter, name, autocast_adapter_dtype=False)
            except Exception as error:
                reason = one_line(f"{type(error).__name__}: {error}")
                raise InputError(
                    f"{adapter}: the adapter does not fit {self._serving.model} ({reason}); give its own base"
                ) from error
            self._model.eval()
            self._loaded[adapter] = name
        self._model.set_adapter(self._loaded[adapter])
        return nullcontext()

    def complete(
        self, prompts_token_ids: list[list[int]], adapter: Path | None, config: GenerationConfig, first_index: int = 0
    ) -> list[Completion]:
        """See `Engine`."""
        limits = answer_limits(self._serving, prompts_token_ids, config)
        answers: dict[int, Completion] = {}
        with self._switch(adapter):
            # a row near the context's end must not be pushed past it by its neighbours
            for limit in sorted(set(limits)):
                rows = [i for i, own in enumerate(limits) if own == limit]
                seed = prompt_seed(config.seed, first_index + rows[0])
                generated = self._generate([prompts_token_ids[i] for i in rows], limit, config, seed)
                answers |= {i: completion_of(self._serving, ids) for i, ids in zip(rows, generated, strict=True)}
        return [answers[i] for i in range(len(prompts_token_ids))]

    def _generate(self, prompts: list[list[int]], limit: int, config: GenerationConfig, seed: int) -> list[list[int]]:
        import torch
        import transformers

        stops = list(self._serving.stop_ids)
        pad = self._serving.tokenizer.pad_token_id
        pad = pad if pad is not None else (stops or [0])[0]
        longest = max(map(len, prompts))
        padded = [[pad] * (longest - len(ids)) + ids for ids in prompts]
        mask = [[0] * (longest - len(ids)) + [1] * len(ids) for ids in prompts]
        sampling: dict[str, Any] = {"do_sample": False}
        if config.temperature > 0:
            sampling = {"do_sample": True, "temperature": config.temperature, "top_p": config.top_p, "top_k": 0}
        decoding = transformers.GenerationConfig(
            max_new_tokens=limit, eos_token_id=stops or None, pad_token_id=pad, **sampling
        )
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            output = self._model.generate(
                input_ids=torch.tensor(padded, device=self._device),
                attention_mask=torch.tensor(mask, device=self._device),
                generation_config=decoding,
            )
        return [ids[:limit] for ids in output[:, longest:].tolist()]

    def close(self) -> None:
        """Drop the model."""
        import torch

        self._model = None
        gc.collect()
        if self._device == "cuda":
            torch.cuda.empty_cache()
