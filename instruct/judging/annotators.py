"""AlpacaEval's annotators: their prompts, settings and parsers, read from the installed alpaca-eval package.

Only the client is ours; the package's own is never called, so nothing is written into site-packages. The package uses
the legacy completions endpoint for any model with "instruct" in its name, and then sends chat markup as plain text;
here chat prompts go to the chat endpoint and text prompts to the other. The package sends ten text prompts per request;
here it is one.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import itertools
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from instruct.base.cards import nearest, read_yaml
from instruct.base.errors import InputError, one_line

if TYPE_CHECKING:
    from instruct.base.replies import Completion

# These only copy fields of the reply into columns, after the verdict.
_HARMLESS_PROCESSORS = {"ChainOfThoughtProcessor", "JsonKeysToColumnProcessor"}
# Arguments of the package's client that are not part of a request.
_CLIENTS_OWN = {"requires_chatml", "client_kwargs", "price_per_token", "num_procs", "batch_size", "n_retries"}
_DECODING = {"model_name", "temperature", "top_p", "max_tokens"}
# Models that are reported to have been shut down, and when.
SHUT_DOWN = {"gpt-4": "2026-10-23", "gpt-4-1106-preview": "2026-10-23"}
EQUAL_RANKS = "equal ranks"


def annotator_card_fields(name: str) -> dict[str, Any]:
    """The fields of an annotator's judge card, from the package's configs.yaml.

    Raises:
        InputError: the package is not installed, has no such annotator, or has one that cannot be asked the way the
            package asks it; the message says why.
    """
    config = annotator_config(name)
    kwargs = config["completions_kwargs"]
    model = str(kwargs["model_name"])
    base_url = (kwargs.get("client_kwargs") or {}).get("base_url")
    chat = "<|im_start|>" in annotator_prompt(name).read_text(encoding="utf-8")
    return {
        "name": name,
        "description": "an annotator of the alpaca-eval package",
        "model": model,
        "protocol": "pairwise",
        "annotator": name,
        "prompt_form": "chat" if chat else "text",
        "decoding": {
            # The package's own defaults (alpaca_eval.decoders.openai).
            "temperature": kwargs.get("temperature", 0.7),
            "top_p": kwargs.get("top_p", 1.0),
            "max_tokens": kwargs.get("max_tokens", 2048),
            "extra": {key: value for key, value in kwargs.items() if key not in _DECODING | _CLIENTS_OWN},
        },
        "verdict": {"parser": "alpaca_eval_annotator"},
        "order_policy": "one",
        "leading_policy": "single",
        "context_length": 8192,  # not known to the package; used for trimming alone
        "needs": f"`base_url` {base_url} and its key in OPENAI_API_KEY, or another server that serves it"
        if base_url
        else "OPENAI_API_KEY, or `base_url` of a server that serves it",
        "licence": "Apache-2.0 (the annotator); the model under its provider's terms",
        "citation": "Li et al., AlpacaEval: An Automatic Evaluator of Instruction-following Models, 2023",
        "notes": f"{model} is reported to have been shut down ({SHUT_DOWN[model]}); another "
        "`model` can be asked with the same prompt."
        if model in SHUT_DOWN
        else None,
    }


def annotator_names() -> list[str]:
    """The names of the package's annotators, including those that cannot be asked; [] without the package."""
    if importlib.util.find_spec("alpaca_eval") is None:
        return []
    return sorted(path.parent.name for path in _configs_folder().glob("*/configs.yaml"))


@functools.cache
def annotator_config(name: str) -> dict[str, Any]:
    """The package's configuration of an annotator that can be asked the way the package asks it.

    Raises:
        InputError: as `annotator_card_fields`.
    """
    configs, names = _configs_folder(), annotator_names()
    if name not in names:
        raise InputError(
            f"unknown annotator {one_line(name, 80)!r}{nearest(name, names)}; name one of the alpaca-eval package"
        )
    content = read_yaml(configs / name / "configs.yaml")
    if len(content) != 1:
        raise InputError(
            f"annotator {name}: is a pool of {len(content)} judges, drawn at random for every pair; name a single one"
        )
    config = dict(next(iter(content.values())))
    completions = config.get("fn_completions", "openai_completions")
    kwargs = config.get("completions_kwargs") or {}
    processors = sorted(set(config.get("processors_to_kwargs") or {}) - _HARMLESS_PROCESSORS)
    reason = None
    if completions != "openai_completions":
        reason = f"asks through {completions}, not an OpenAI-compatible server"
    elif config.get("batch_size", 1) != 1:
        reason = f"puts {config['batch_size']} pairs into one prompt"
    elif not config.get("is_randomize_output_order", True):
        reason = "always shows the baseline first"
    elif processors:
        reason = f"changes the pairs by {', '.join(processors)}, which only the package itself can do"
    elif biased := sorted({"tokens_to_favor", "tokens_to_avoid"} & kwargs.keys()):
        reason = f"biases tokens ({', '.join(biased)}) by a tokenizer that has to be downloaded"
    elif unknown := sorted({"is_strip", "is_chat", "client_config_path"} & kwargs.keys()):
        reason = f"sets {', '.join(unknown)}, which only the package's own client knows"
    if reason:
        raise InputError(f"annotator {name}: {reason}; name another annotator, or write a judge card with its prompt")
    return config | {"completions_kwargs": kwargs}


def annotator_prompt(name: str) -> Path:
    """The file of an annotator's prompt.

    Raises:
        InputError: as `annotator_card_fields`, or the file is missing from the package.
    """
    path = _configs_folder() / str(annotator_config(name)["prompt_template"])
    if not path.is_file():
        raise InputError(f"{path}: no such file; install alpaca-eval again")
    return path


def chat_turns(template: str) -> list[dict[str, str]]:
    """The messages of a prompt in ChatML, split by the package's own function."""
    return list(package_module("alpaca_eval.utils").prompt_to_chatml(template.strip()))


def is_weighted(name: str) -> bool:
    """Whether the annotator gives a preference between 1 and 2, from log-probabilities, rather than one of the two."""
    parsers = _parsers(annotator_config(name))
    return any(parser == "logprob_parser" and not kwargs.get("is_binarize", True) for parser, kwargs in parsers)


def annotator_preference(name: str, completion: Completion) -> float | None:
    """AlpacaEval's preference in the order shown: 1 for the first answer, 2 for the second; None if unreadable.

    This is the package's own parser with its own arguments, except that two equal ranks are a draw (1.5); the package
    counts them as a win for the answer shown first.
    """
    config = annotator_config(name)
    parser = _parser(config.get("fn_completion_parser", "regex_parser"))
    try:
        with _silence():
            (preference,) = parser(_reply(config, completion), **(config.get("completion_parser_kwargs") or {}))
        preference = float(preference)
    except Exception:  # like the package: whatever the parser raises, there is no annotation
        return None
    if preference == 0:  # the draw of lmsys_parser, which the package itself fails on
        return 1.5
    if not 1 <= preference <= 2:
        return None
    return 1.5 if ranks_are_equal(name, completion) else preference


def ranks_are_equal(name: str, completion: Completion) -> bool:
    """Whether the reply is a ranking that gives both answers the same rank."""
    config = annotator_config(name)
    *before, (last, _) = _parsers(config)
    if last != "ranking_parser":
        return False
    try:
        reply = _reply(config, completion)
        with _silence():
            if before:
                (ranking,) = _parser("pipeline_meta_parser")(reply, parsers_to_kwargs=dict(before))
            else:
                ranking = _parser("eval_parser")(reply)
        ranks = [entry["rank"] for entry in ranking]
    except Exception:  # not a ranking; the annotator's own parser has reported that
        return False
    return len(ranks) == 2 and ranks[0] == ranks[1]


def _parsers(config: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The annotator's parsers and their arguments, in the order in which they are applied."""
    name = config.get("fn_completion_parser", "regex_parser")
    kwargs = config.get("completion_parser_kwargs") or {}
    return list(kwargs["parsers_to_kwargs"].items()) if name == "pipeline_meta_parser" else [(name, kwargs)]


def _reply(config: dict[str, Any], completion: Completion) -> Any:
    """The input of the annotator's parser: the reply's text, or the server's whole choice.

    The text is that of the package (alpaca_eval.decoders.openai): a tool call's arguments if there was one, a blank if
    the reply is empty. Thinking is no part of either.
    """
    choice = completion.choice or {}
    message = choice.get("message") or {}
    text = completion.text or " "
    if called := message.get("function_call"):
        text = called["arguments"]
    if calls := message.get("tool_calls"):
        text = calls[0]["function"]["arguments"]
    if config.get("completion_key") != "completions_all":
        return text
    logprobs = choice.get("logprobs") or {}
    if completion.reasoning is not None and isinstance(tokens := logprobs.get("content"), list):
        choice = {**choice, "logprobs": {**logprobs, "content": _after_thinking(tokens, completion.text)}}
    return {**choice, "text": text}


def _after_thinking(entries: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """The tokens of a reply's text; some servers also give the log-probabilities of the thinking before it."""
    tokens = [str(entry["token"]) for entry in entries]
    if tokens and re.fullmatch("<.+>", tokens[-1]):  # an end token
        tokens.pop()
    whole, text = "".join(tokens).rstrip(), text.strip()
    if not whole.endswith(text):
        return entries
    begin = len(whole) - len(text)
    return [entry for entry, end in zip(entries, itertools.accumulate(map(len, tokens)), strict=False) if end > begin]


@functools.cache
def _parser(name: str) -> Callable[..., Any]:
    return getattr(package_module("alpaca_eval.completion_parsers"), name)


def _configs_folder() -> Path:
    spec = importlib.util.find_spec("alpaca_eval")
    if spec is None or spec.origin is None:
        raise InputError("the judge's prompt is part of the package alpaca-eval; run `pip install alpaca-eval`")
    return Path(spec.origin).parent / "evaluators_configs"


def package_module(module: str) -> ModuleType:
    """A module of the package, imported without its side effects on logging and warnings."""
    root = logging.getLogger()
    level = root.level
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    finally:
        root.setLevel(level)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """The package logs unreadable replies as errors, text included; here the report counts them.

    It also compiles replies as Python literals, of which the compiler warns.
    """
    disabled = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
