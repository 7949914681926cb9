"""A model in transformers on this machine: where vLLM is not installed, and for beam search and 4-bit weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, InstructError, one_line, refused_by_library
from instruct.base.networks import load_adapter
from instruct.base.replies import Failure, Reply
from instruct.engines.base import EngineOptions, Request
from instruct.engines.local import LLAMA_BOS, LLAMA_EOS, LLAMA_PAD, scored
from instruct.engines.network import NetworkEngine, batches, padded

# Tokens of prompts and replies, padding included, that are computed together.
_TOKENS = {"cpu": 8192, "cuda": 65536}


class TransformersEngine(NetworkEngine):
    """transformers' `generate`, on up to `options.batch` prompts of about one length (None: one), padded on the left.

    The model is loaded once, and its LoRA adapters lie next to each other on it.

    Beam search stops early, as PandaLM's authors have it (WeOpenML/PandaLM, pandalm/utils/pandalm_inference.py).
    Samples are seeded per batch, by its first request, so they repeat for the same requests only.

    Raises:
        InputError: `tensor_parallel_size` is set, which only vLLM has; when the first request is looked at: 4-bit
            weights without a GPU, weights that cannot be loaded, a label that is not one token.
    """

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self._peft: Any = None  # the model with its adapters
        self._adapters: dict[str, str] = {}  # PEFT's name for each adapter folder
        if options.response_schema is not None:
            self.notes.append("asked without its JSON schema, which transformers cannot hold replies to")
        if options.tensor_parallel_size != 1:
            raise InputError(
                f"{options.subject}: tensor_parallel_size {options.tensor_parallel_size} needs vLLM; leave it out, or "
                "set the engine to vllm"
            )

    def check(self) -> None:
        super().check()
        self._check_gpu()

    def _check_gpu(self) -> None:
        import torch

        if self.options.quantization and not torch.cuda.is_available():
            raise InputError(
                f"{self.options.subject}: quantization {self.options.quantization} needs a GPU (bitsandbytes); "
                "use a machine with one"
            )

    def _loaded(self) -> Any:
        import torch
        import transformers

        self._check_gpu()
        _ = self.labels  # those that are not one token are refused before anything is loaded
        quantization: dict[str, Any] = {}
        if self.options.quantization:
            config = transformers.BitsAndBytesConfig(
                load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=getattr(torch, self.dtype)
            )
            quantization = {"quantization_config": config, "device_map": {"": 0}}
        network = self._read(**quantization)
        # What a model brings along (temperature, repetition penalty) would fill what the decoding leaves open.
        network.generation_config = transformers.GenerationConfig()
        return network

    @contextmanager
    def adapted(self, adapter: str | Path | None) -> Iterator[Any]:
        """The transformers model (`*ForCausalLM`) with `adapter` switched on (None: as it is), without gradients."""
        import torch

        network = self.network  # PEFT puts the adapters' layers into it
        if adapter is not None:
            self._switch_on(str(adapter))
        as_it_is = adapter is None and self._peft is not None
        with self._peft.disable_adapter() if as_it_is else nullcontext(), torch.inference_mode():
            yield network

    def _switch_on(self, adapter: str) -> None:
        if adapter not in self._adapters:
            name = f"adapter{len(self._adapters)}"
            try:
                self._peft = load_adapter(self._peft or self.network, adapter, name)
            except InputError:
                self.close()  # an adapter that does not fit has changed the network
                raise
            except Exception as error:
                reason = one_line(f"{type(error).__name__}: {error}")
                raise InputError(
                    f"{adapter}: the adapter does not fit {self.weights.model} ({reason}); give its own base"
                ) from error
            self._peft.eval()
            self._adapters[adapter] = name
        self._peft.set_adapter(self._adapters[adapter])

    def close(self) -> None:
        """Drop the model and its adapters."""
        self._peft, self._adapters = None, {}
        super().close()

    def complete(self, requests: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        """See `Engine`. All requests are taken before the first is answered."""
        failed: list[tuple[Request, Reply]] = []
        # A row near the context's end must not be pushed past it by its neighbors.
        alike: dict[tuple[Any, ...], list[tuple[Request, Request]]] = {}
        for request in requests:
            row = self._resolved(request)
            if isinstance(row, Failure):
                failed.append((request, row))
            else:
                alike.setdefault(_kind(row), []).append((request, row))
        if failed:
            yield failed
        for kind, asked in alike.items():
            tokens = _TOKENS[self.start().rpartition(" ")[2]] // self.options.decoding.beams
            lengths = [len(row.prompt) + (row.max_tokens or 0) for _, row in asked]
            for places in batches(lengths, tokens, self.options.batch or 1):
                batch = [asked[place] for place in places]
                answered = self._scored if kind[-1] else self._generate
                problem = f"{self.options.subject}: transformers cannot answer with it"
                # A model's own code may not know what answering takes.
                with refused_by_library(problem, "use another engine or model", InstructError):
                    replies = answered([row for _, row in batch])
                yield [(request, reply) for (request, _), reply in zip(batch, replies, strict=True)]

    def _generate(self, rows: list[Request]) -> list[Reply]:
        """Replies to rows of one kind."""
        import torch

        prompts: list[Any] = [row.prompt for row in rows]
        longest = max(map(len, prompts))
        with self.adapted(rows[0].adapter) as network, torch.random.fork_rng():
            decoding, labels = self._decoding(rows[0]), list(self.labels.values())
            pads = [longest - len(prompt) for prompt in prompts]
            ids = [[decoding.pad_token_id] * pad + [*prompt] for pad, prompt in zip(pads, prompts, strict=True)]
            torch.manual_seed(rows[0].seed or 0)
            done = (self._peft or network).generate(
                input_ids=torch.tensor(ids, device=network.device),
                attention_mask=torch.tensor([[0] * pad + [1] * (longest - pad) for pad in pads], device=network.device),
                generation_config=decoding,
                output_logits=bool(labels),
                return_dict_in_generate=True,
            )
        answers = done.sequences[:, longest:].tolist()
        logprobs = [None] * len(rows)
        if labels:
            logprobs = done.logits[0].float().log_softmax(-1)[:, labels].tolist()
        return [self._completion(*reply) for reply in zip(prompts, answers, logprobs, strict=True)]

    def _scored(self, rows: list[Request]) -> list[Reply]:
        """Replies to rows of one kind whose tokens are scored. What follows a text cannot change it: no mask."""
        texts: list[Any] = [row.prompt for row in rows]
        ids, _ = padded(texts, 0)
        with self.adapted(rows[0].adapter) as network:
            ids = ids.to(network.device)
            logits = network(input_ids=ids, use_cache=False).logits[:, :-1].float()
            scores = logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0].tolist()
        return [
            scored(row, values[(row.scored or 1) - 1 : len(text) - 1])
            for row, text, values in zip(rows, texts, scores, strict=True)
        ]

    def _decoding(self, row: Request) -> Any:
        from transformers import GenerationConfig

        decoding = self.options.decoding
        more: dict[str, Any] = {"do_sample": False}
        if row.temperature:
            more = {"do_sample": True, "temperature": row.temperature, "top_p": decoding.top_p, "top_k": 0}
        if row.min_tokens:
            more["min_new_tokens"] = row.min_tokens
        if decoding.beams > 1:
            more |= {"num_beams": decoding.beams, "early_stopping": True}
        if decoding.repetition_penalty is not None:
            more["repetition_penalty"] = decoding.repetition_penalty
        pad, begin = self.tokenizer.pad_token_id, self.tokenizer.bos_token_id
        if self.stops == [LLAMA_EOS]:
            pad, begin = LLAMA_PAD, LLAMA_BOS
        return GenerationConfig(
            max_new_tokens=row.max_tokens,
            eos_token_id=self.stops or None,
            pad_token_id=(self.stops or [0])[0] if pad is None else pad,
            bos_token_id=begin,
            **more,
        )


def _kind(row: Request) -> tuple[Any, ...]:
    """Rows of one kind can be computed together."""
    return row.adapter or "", row.max_tokens, row.min_tokens, row.temperature, row.scored is not None
