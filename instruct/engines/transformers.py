"""A model in transformers on this machine: where vLLM is not installed, and for beam search, which vLLM lacks."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import Any

from instruct.engines.base import EngineOptions, Reply, Request
from instruct.engines.local import LLAMA_BOS, LLAMA_EOS, LLAMA_PAD, LocalEngine
from instruct.engines.pickles import unreadable


class TransformersEngine(LocalEngine):
    """transformers' `generate` with the given decoding, one prompt at a time: a reply has no neighbours.

    Beams stop early, as PandaLM's authors have it (WeOpenML/PandaLM, pandalm/utils/pandalm_inference.py). Samples are
    seeded a prompt.

    Raises:
        InputError: when the first request is looked at: the weights cannot be had or do not load, a label is not one
            token.
    """

    kind = "transformers"

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        if options.response_schema is not None:
            self.notes.append("asked without its JSON schema, which transformers cannot hold replies to")
        self._network: Any = None

    def _load(self) -> None:
        import torch
        import transformers

        try:
            network: Any = transformers.AutoModelForCausalLM.from_pretrained(
                self._model,
                revision=self._revision,
                dtype=torch.bfloat16 if not torch.cuda.is_available() or torch.cuda.is_bf16_supported() else "float16",
                trust_remote_code=False,
                use_safetensors=not self._pickled,
                weights_only=True,
            )
        except Exception as error:  # a pickle that holds code, a torn file, an unknown architecture, ...
            raise unreadable(self._model, error) from error
        self._network = network.to("cuda" if torch.cuda.is_available() else "cpu").eval()
        # What a model brings along (temperature, repetition penalty) would fill what the decoding leaves open.
        self._network.generation_config = transformers.GenerationConfig()

    def complete(self, requests: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        for request in requests:
            ids = self._token_ids(request.prompt)
            yield [(request, self._too_long(ids) or self._answered(ids))]

    def _answered(self, prompt: list[int]) -> Reply:
        import torch

        if self._network is None:
            self._load()
        labels = list(self._labels.values())
        ids = torch.tensor([prompt], device=self._network.device)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            done = self._network.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                generation_config=self._decoding(),
                output_logits=bool(labels),
                return_dict_in_generate=True,
            )
        logprobs = done.logits[0][0].float().log_softmax(-1)[labels].tolist() if labels else None
        return self._completion(prompt, done.sequences[0, len(prompt) :].tolist(), logprobs)

    def _decoding(self) -> Any:
        from transformers import GenerationConfig

        decoding = self._options.decoding
        more: dict[str, Any] = {"do_sample": False}
        if decoding.temperature > 0:
            more = {"do_sample": True, "temperature": decoding.temperature, "top_p": decoding.top_p, "top_k": 0}
        if decoding.beams > 1:
            more |= {"num_beams": decoding.beams, "early_stopping": True}
        if decoding.repetition_penalty is not None:
            more["repetition_penalty"] = decoding.repetition_penalty
        pad, begin = self._tokenizer.pad_token_id, self._tokenizer.bos_token_id
        if self._stops == [LLAMA_EOS]:
            pad, begin = LLAMA_PAD, LLAMA_BOS
        return GenerationConfig(
            max_new_tokens=decoding.max_tokens,
            eos_token_id=self._stops,
            pad_token_id=self._stops[0] if pad is None else pad,
            bos_token_id=begin,
            **more,
        )

    def close(self) -> None:
        """Drop the model."""
        if self._network is None:
            return
        import torch

        self._network = None
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
