"""`instruct doctor ADAPTER`: does an adapter, whoever trained it, act in the engine that is to answer with it?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from instruct.base.errors import InputError, InstructError, counted, one_line
from instruct.base.models import Dtype, ModelOptions, compute_dtype, model_path
from instruct.base.networks import check_adapter
from instruct.base.output import Finding
from instruct.data.tokens import text_token_ids
from instruct.engines.base import Decoding, Engine, EngineOptions
from instruct.engines.canary import check_weights_that_answer, moved_by, read_canary
from instruct.engines.local import load_tokenizer
from instruct.engines.start import make_engine
from instruct.engines.weights import adapter_settings, check_model, is_adapter
from instruct.generation.batches import local_kind
from instruct.generation.options import GenerationConfig

# That is scored with the adapter and without; a training that kept one of its own texts is asked about that, too.
TEXT = (
    "The city council met on Tuesday to decide how the old railway bridge should be repaired, who would pay for the "
    "work, and whether 3 of its 12 arches could be kept. Nobody expected an answer before spring."
)
# A log-probability that moves by less is one that the adapter does not move: rounding in another order.
LEAST = {"float32": 1e-4, "float16": 0.03, "bfloat16": 0.3}


def check_adapter_acts(
    adapter: Path, base: str | None = None, engine: str | None = None, base_url: str | None = None
) -> Iterator[Finding]:
    """Compare an adapter's keys with its base, and what the engine says with it and without it.

    Args:
        adapter: a folder of PEFT.
        base: the model; None: the one that the adapter names.
        engine: vllm or transformers; None: vLLM if it is installed.
        base_url: of a server that serves the base, and the adapter by its folder's name.

    Raises:
        InputError: no adapter, no base, or an engine that is not there.
    """
    is_adapter(adapter)
    settings = adapter_settings(adapter)
    named = base or str(settings.get("base_model_name_or_path") or "")
    if not named:
        raise InputError(f"{adapter}: names no base model; give `model`")
    model = ModelOptions(name=named)
    yield Finding("adapter", "ok", _changes(adapter, settings))
    path = model_path(named)
    try:
        check_adapter(path, check_model(path, model.revision), adapter)
    except InputError as error:
        text, _, remedy = str(error).rpartition("; ")
        yield Finding("keys", "error", text, remedy)
        return
    except Exception as error:  # whatever PEFT or transformers make of it
        reason = one_line(f"{type(error).__name__}: {error}", 200)
        yield Finding("keys", "error", f"{adapter}: cannot be loaded on {named} ({reason})", "give its own base")
        return
    yield Finding("keys", "ok", "each has its place in the base, and none is missing")
    yield from _effect(adapter, model, engine, base_url)


def _changes(adapter: Path, settings: dict[str, Any]) -> str:
    """The modules that an adapter changes, by their names."""
    from safetensors import safe_open

    with safe_open(adapter / "adapter_model.safetensors", "pt") as file:
        keys = list(file.keys())
    modules = {key.partition(".lora_")[0].replace(".base_layer", "") for key in keys if ".lora_" in key}
    kinds = Counter(module.rpartition(".")[2] for module in modules)
    whole = sorted({key.removesuffix(".weight").rpartition(".")[2] for key in keys if ".lora_" not in key})
    parts = [f"{kind} {count}" for kind, count in sorted(kinds.items())]
    kind = str(settings.get("peft_type", "?")) + (" with DoRA" if settings.get("use_dora") else "")
    kind += f", rank {settings['r']}" if "r" in settings else ""
    also = f"; whole: {', '.join(whole)}" if whole else ""
    return one_line(f"{kind}: {counted(len(modules), 'module')} ({', '.join(parts)}){also}", 300)


def _effect(adapter: Path, model: ModelOptions, kind: str | None, base_url: str | None) -> Iterator[Finding]:
    path = model_path(model.name)
    tokenizer = load_tokenizer(f"model {model.name}", path, model.revision)
    (ids,) = text_token_ids(tokenizer, [TEXT])
    canary = read_canary(adapter)
    dtype, name = compute_dtype(model), adapter.resolve().name if base_url else str(adapter)
    options = EngineOptions(
        subject=f"model {model.name}",
        model=model.name if base_url else path,
        decoding=Decoding(max_tokens=1),
        context_length=max(len(ids), len(canary.ids) if canary else 0) + 8,
        chat=True,
        batch=1,
        adapters=() if base_url else (adapter,),
        tokenizer=tokenizer,
        dtype=None if base_url else cast(Dtype, dtype),
    )
    engine = _engine(model, options, kind, base_url)
    try:
        version = engine.start()
        moved = moved_by(engine, ids, name)
        if moved is None:
            raise InputError("the engine does not score given text")
        what = f"{version}: moves a log-probability of a text of {len(ids)} tokens by up to {moved:.3g}"
        if moved <= LEAST[dtype]:
            remedy = "its weights may be 0, its names may match nothing there, or the engine ignores it"
            yield Finding("effect", "error", f"{what}, which is none", remedy)
        else:
            yield Finding("effect", "ok", what)
        if canary:
            outcome = check_weights_that_answer(engine, canary, name, dtype, f"adapter {adapter}")
            if outcome == "checked":
                yield Finding("weights", "ok", f"{version}: answers as it was trained")
            else:
                yield Finding("weights", "warning", f"{version}: {outcome}")
    except InstructError as error:
        text_of, _, remedy = str(error).rpartition("; ")
        yield Finding("effect", "error", text_of or remedy, remedy if text_of else "")
    finally:
        engine.close()


def _engine(model: ModelOptions, options: EngineOptions, kind: str | None, base_url: str | None) -> Engine:
    if base_url:
        from instruct.engines.server import ServerEngine

        return ServerEngine(options, base_url)
    config = GenerationConfig.model_validate({"engine": kind or "auto"})
    return make_engine(local_kind(model, config), options)
