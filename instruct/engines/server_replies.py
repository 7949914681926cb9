"""Requests to an OpenAI-compatible server, and what its replies and refusals mean."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from instruct.base.errors import InputError, StoppedError
from instruct.base.replies import Completion, ScoredCompletion
from instruct.engines.base import EngineOptions, Prompt, Request
from instruct.engines.thinking import Parted, parted_after, parted_inline

# SQLite's largest integer.
_LARGEST = 2**63 - 1
_STOPS = 4  # texts that end a reply: the most that OpenAI's own endpoint takes
BUDGET_NAME = "thinking_token_budget"  # vLLM's; OpenAI's own endpoint has no such parameter
_TOO_LONG = re.compile(r"context[ _]?(length|size|window)|max(imum)?[ _]model[ _]len|too many tokens", re.IGNORECASE)


@dataclass(eq=False)
class Refused(Exception):
    """This request will never be answered. `ill`: the refusal may mean that the server is broken."""

    reason: str
    ill: bool = True


@dataclass(eq=False)
class Fault(Exception):
    """No usable reply this time. `answered`: it may have been charged for; `wait`: seconds in Retry-After."""

    reason: str
    answered: bool = False
    usage: tuple[int | None, int | None] = (None, None)
    wait: float | None = None


@dataclass(eq=False)
class NoLogprobs(Exception):
    """The reply lacks the log-probabilities that are needed. `completion`: the reply without them."""

    completion: Completion


class NoScore(Exception):
    """The server does not return the log-probabilities of a prompt."""


def well_formed(text: str) -> str:
    """`text` with each lone surrogate, which UTF-8 cannot encode, replaced by U+FFFD, as browsers do."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def request_body(
    options: EngineOptions, request: Request, max_tokens_name: str = "max_tokens"
) -> tuple[str, dict[str, Any]]:
    """The path below the base URL, and the JSON object sent there."""
    decoding, prompt = options.decoding, request.prompt
    model, limit = request.adapter or options.model, request.max_tokens or decoding.max_tokens
    temperature = decoding.temperature if request.temperature is None else request.temperature
    body: dict[str, Any] = {"model": model, "temperature": temperature, "top_p": decoding.top_p}
    asked_for = {
        "repetition_penalty": decoding.repetition_penalty,
        "seed": request.seed,
        "min_tokens": request.min_tokens or None,  # vLLM's; OpenAI's own endpoint has no such parameter
        "stop": list(request.stop[:_STOPS]) or None,
        BUDGET_NAME: options.thinking_budget,
    }
    body |= {name: value for name, value in asked_for.items() if value is not None}
    if options.response_schema is not None:
        schema = {"name": "verdict", "schema": options.response_schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if isinstance(prompt, list):
        messages = [{**message, "content": well_formed(message["content"])} for message in prompt]
        body |= {"messages": messages, max_tokens_name: limit}
        if options.labels:
            body |= {"logprobs": True, "top_logprobs": 20}
        return "/chat/completions", body | decoding.extra
    body |= {"prompt": well_formed(prompt) if isinstance(prompt, str) else list(prompt), "max_tokens": limit}
    if request.scored is not None:
        body |= {"max_tokens": 1, "echo": True, "logprobs": 1}
    if options.labels:
        body["logprobs"] = 5  # the most that OpenAI's own endpoint gives
    return "/completions", body | decoding.extra


def read_reply(options: EngineOptions, data: bytes, prompt: Prompt = "") -> Completion:
    """The completion in the body of a reply with status 200.

    Raises:
        Fault: it is malformed or empty; another attempt may do better.
        Refused: the server does not answer this prompt.
        NoLogprobs: log-probabilities are needed and missing.
    """
    reply = _parsed(data)
    usage: tuple[int | None, int | None] = (None, None)
    try:
        counts = reply.get("usage") or {}
        usage = (_count(counts.get("prompt_tokens")), _count(counts.get("completion_tokens")))
        choice = reply["choices"][0]
        finish = choice.get("finish_reason")
        text = _text(choice, not {"tools", "functions"}.isdisjoint(options.decoding.extra))
        message = choice.get("message") or {}
        reasoning, calls = message.get("reasoning_content") or message.get("reasoning"), message.get("tool_calls")
        thought = _count((counts.get("completion_tokens_details") or {}).get("reasoning_tokens"))
    except (LookupError, TypeError, AttributeError):
        raise Fault("malformed reply: no choice", answered=True, usage=usage) from None
    if finish == "content_filter":
        raise Refused("content filter", ill=False)
    reasoning = reasoning if isinstance(reasoning, str) else None
    if text is None and finish == "length":
        text, reasoning = "", reasoning or ""  # it thought until the limit, and would again
    elif text is None and (reasoning or calls):
        text = ""
    if isinstance(text, str) and options.parts_thinking and reasoning is None:
        text, reasoning = _parted(options, text, prompt)
    if not isinstance(text, str):
        if isinstance(choice.get("message"), dict) and choice["message"].get("refusal"):
            raise Refused("the judge refuses to answer", ill=False)
        raise Fault("malformed reply: no text", answered=True, usage=usage)
    model = reply.get("model")
    top, labels = _first_token(choice), options.labels
    # A label outside the server's top tokens has no log-probability, which makes the verdict unparsed.
    logprobs = {label: top[label] for label in labels if label in top} if top else {}
    completion = Completion(
        text,
        label_logprobs=logprobs if labels else None,
        finish_reason=finish if isinstance(finish, str) else None,
        prompt_tokens=usage[0],
        completion_tokens=usage[1],
        choice=_kept_choice(choice, text, counts) if options.keep_choice else None,
        model=model if isinstance(model, str) else None,
        reasoning=reasoning,
        tool_calls=calls if isinstance(calls, list) and calls else None,
        reasoning_tokens=thought if thought is not None and thought <= (usage[1] or 0) else None,  # or it is apart
    )
    if top is None and (labels or options.decoding.extra.get("logprobs")):
        raise NoLogprobs(completion)
    return completion


def read_score(data: bytes, request: Request) -> Completion:
    """The score in the body of a reply to a request whose prompt is echoed with its log-probabilities.

    Raises:
        Fault: it is malformed; another attempt may do better.
        NoScore: the server does not score prompts.
    """
    try:
        logprobs = _parsed(data)["choices"][0].get("logprobs") or {}
        values, tops = logprobs.get("token_logprobs") or (), logprobs.get("top_logprobs") or ()
    except (LookupError, TypeError, AttributeError):
        raise Fault("malformed reply: no choice", answered=True) from None
    wanted = slice(request.scored, len(request.prompt))
    own = list(zip(values[wanted], tops[wanted], strict=False))
    if len(own) < len(request.prompt) - (request.scored or 0) or not all(
        _is_number(value) and isinstance(top, dict) and all(map(_is_number, top.values())) for value, top in own
    ):
        raise NoScore
    score = math.fsum(value for value, _ in own), all(value >= max(top.values(), default=value) for value, top in own)
    logprobs = tuple(value for value, _ in own)
    return ScoredCompletion("", prompt_tokens=len(request.prompt), score=score, token_logprobs=logprobs)


def _parsed(data: bytes) -> Any:
    """The JSON in the body of a reply. NaN and infinity are read as missing.

    Raises:
        Fault: there is none.
    """
    try:
        reply = json.loads(data.decode("utf-8-sig"), parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        raise Fault("malformed reply: no JSON", answered=True) from None
    # A lone surrogate can only be an escape.
    return _well_formed_throughout(reply) if b"\\u" in data else reply


def _parted(options: EngineOptions, text: str, prompt: Prompt) -> Parted:
    """The text of a reply without its thinking; the chat template is known of prompts that were rendered here."""
    if options.tokenizer is not None and isinstance(prompt, tuple):
        return parted_after(prompt, text, text, options.tokenizer)
    return parted_inline(text)


def _text(choice: dict[str, Any], may_call: bool) -> Any:
    """`may_call`: a model that must call a function answers in its arguments."""
    if "message" not in choice:
        return choice.get("text")
    message = choice["message"]
    if may_call and message.get("tool_calls"):
        return message["tool_calls"][0]["function"]["arguments"]
    if message.get("function_call"):
        return message["function_call"]["arguments"]
    return message.get("content")


def _first_token(choice: dict[str, Any]) -> dict[str, float] | None:
    """Log-probabilities of the likeliest first tokens; None if the server sends none."""
    logprobs = choice.get("logprobs") or {}
    tokens = logprobs.get("content" if "message" in choice else "top_logprobs")
    if tokens is None:
        return None
    if not tokens:
        return {}
    first = tokens[0]
    pairs = first.items() if "message" not in choice else ((e["token"], e["logprob"]) for e in first["top_logprobs"])
    return {token: float(value) for token, value in pairs if _is_number(value)}


def _kept_choice(choice: dict[str, Any], text: str, usage: Any) -> dict[str, Any]:
    """The choice as alpaca_eval keeps it: OpenAI's shape with all its fields, and `text` and `total_tokens`."""
    from openai.types import completion_choice
    from openai.types.chat import chat_completion

    chat = "message" in choice
    shape: Any = chat_completion.Choice if chat else completion_choice.CompletionChoice
    kept = shape.construct(**choice).model_dump(mode="json", warnings=False)
    for token in (kept.get("logprobs") or {}).get("content") or []:
        token["top_logprobs"] = [entry for entry in token["top_logprobs"] if _is_number(entry["logprob"])]
    if chat:
        kept["text"] = text if text != "" else " "
    total = _count(usage.get("total_tokens"))
    return kept if total is None else {**kept, "total_tokens": total}


def read_refusal(
    options: EngineOptions,
    endpoint: str,
    status: int,
    headers: Mapping[str, str],
    body: object,
    model: str | None = None,
) -> Exception:
    """What a status other than 200 means. The server's words may repeat key or prompt, so none are passed on.

    Returns:
        `Fault`: a retry may help. `Refused`: this request fails. `InputError`, `StoppedError`: all work ends.
    """
    error = body if isinstance(body, dict) else {}
    code, message, parameter = error.get("code"), str(error.get("message")), error.get("param")
    asked = f"{options.subject}: {endpoint}"
    if status in (401, 403, 404):
        remedy = options.other_model if status == 404 else "check OPENAI_API_KEY and what it may use"
        return InputError(f"{asked} refuses model {model or options.model} (HTTP {status}); {remedy}")
    if status == 402 or code == "insufficient_quota":
        return StoppedError(
            f"{asked} reports that the key's quota is used up (HTTP {status}); raise it and rerun the command"
        )
    if status in (408, 409, 425, 429) or status >= 500:
        return Fault(f"HTTP {status}", wait=_retry_after(headers.get("retry-after")))
    if status == 413 or code in ("context_length_exceeded", "string_above_max_length") or _TOO_LONG.search(message):
        limit = options.decoding.max_tokens
        return Refused(f"too long: the prompt and {limit} tokens to answer exceed what the server takes", ill=False)
    if code in ("content_filter", "content_policy_violation"):
        return Refused("content filter", ill=False)
    if BUDGET_NAME in (parameter, *re.findall(BUDGET_NAME, message)) and options.thinking_budget is not None:
        return InputError(
            f"{asked} takes no {BUDGET_NAME} (HTTP {status}); start vLLM with --reasoning-parser, or leave "
            "thinking_budget out"
        )
    known = {*request_body(options, Request("", ""))[1], *request_body(options, Request("", []))[1]}
    if code in ("unsupported_parameter", "unsupported_value") and parameter in known:
        return InputError(
            f"{asked}: model {options.model} does not accept the parameter {parameter} (HTTP {status}); "
            "ask another model, or leave that parameter out of the judge card"
        )
    return Refused(f"HTTP {status}")


def _retry_after(value: str | None) -> float | None:
    """Seconds from now in a Retry-After header (seconds or an HTTP date); None if it is missing or invalid."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError, OSError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST else None


def _well_formed_throughout(value: Any) -> Any:
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [_well_formed_throughout(item) for item in value]
    if isinstance(value, dict):
        return {well_formed(name): _well_formed_throughout(item) for name, item in value.items()}
    return value
