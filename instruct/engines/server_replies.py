"""What an OpenAI-compatible server is asked, and what its replies and refusals mean."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from instruct.engines.base import Completion, EngineOptions, Request
from instruct.errors import InputError, StoppedError

# What a server may keep as a whole number, and SQLite can.
_LARGEST = 2**63 - 1
_TOO_LONG = re.compile(r"context[ _]?(length|size|window)|max(imum)?[ _]model[ _]len|too many tokens", re.IGNORECASE)


class Refused(Exception):
    """This request can have no reply: asking again would give the same. `ill`: it says something of the server too."""

    def __init__(self, reason: str, ill: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.ill = ill


class Fault(Exception):
    """No usable reply this time. `answered`: the server may have charged for it; `wait`: seconds that it asks for."""

    def __init__(
        self,
        reason: str,
        answered: bool = False,
        usage: tuple[int | None, int | None] = (None, None),
        wait: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.answered = answered
        self.usage = usage
        self.wait = wait


class NoLogprobs(Exception):
    """The reply has no log-probabilities, and the judge's verdict is read from them; the completion without them."""

    def __init__(self, completion: Completion) -> None:
        super().__init__()
        self.completion = completion


def well_formed(text: str) -> str:
    """`text` as UTF-8 can hold it: a lone surrogate becomes U+FFFD, as in a browser; all else stays."""
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
    body: dict[str, Any] = {"model": model, "temperature": decoding.temperature, "top_p": decoding.top_p}
    if decoding.repetition_penalty is not None:
        body["repetition_penalty"] = decoding.repetition_penalty
    if request.seed is not None:
        body["seed"] = request.seed
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
    if options.labels:
        body["logprobs"] = 5  # the most that OpenAI's own endpoint gives
    return "/completions", body | decoding.extra


def read_reply(options: EngineOptions, data: bytes) -> Completion:
    """The completion in the body of a reply with status 200. NaN and infinity are read as missing.

    Raises:
        Fault: it is malformed or empty; another attempt may do better.
        Refused: the server will not give a reply to this prompt.
        NoLogprobs: the judge needs log-probabilities and there are none.
    """
    try:
        reply = json.loads(data, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        raise Fault("malformed reply: no JSON", answered=True) from None
    if b"\\u" in data:  # only an escape can stand for a lone surrogate
        reply = _well_formed_throughout(reply)
    usage: tuple[int | None, int | None] = (None, None)
    try:
        counts = reply.get("usage") or {}
        usage = (_count(counts.get("prompt_tokens")), _count(counts.get("completion_tokens")))
        choice = reply["choices"][0]
        finish = choice.get("finish_reason")
        text = _text(choice)
    except (LookupError, TypeError, AttributeError):
        raise Fault("malformed reply: no choice", answered=True, usage=usage) from None
    if finish == "content_filter":
        raise Refused("content filter", ill=False)
    if text is None and finish == "length":
        text = ""  # all that it was given went into thinking: it would again
    if not isinstance(text, str):
        if isinstance(choice.get("message"), dict) and choice["message"].get("refusal"):
            raise Refused("the judge refuses to answer", ill=False)
        raise Fault("malformed reply: no text", answered=True, usage=usage)
    model = reply.get("model")
    top, labels = _first_token(choice), options.labels
    # A label that is not among the server's top tokens has no log-probability: the verdict is unparsed.
    found = {label: top[label] for label in labels if label in top} if top else {}
    completion = Completion(
        text,
        label_logprobs=found if labels else None,
        finish_reason=finish if isinstance(finish, str) else None,
        prompt_tokens=usage[0],
        completion_tokens=usage[1],
        choice=_kept_choice(choice, text, counts) if options.keep_choice else None,
        model=model if isinstance(model, str) else None,
    )
    if top is None and (labels or options.decoding.extra.get("logprobs")):
        raise NoLogprobs(completion)
    return completion


def _text(choice: dict[str, Any]) -> Any:
    if "message" not in choice:
        return choice.get("text")
    message = choice["message"]
    # A judge that is made to call a function says its verdict in the arguments.
    if message.get("tool_calls"):
        return message["tool_calls"][0]["function"]["arguments"]
    if message.get("function_call"):
        return message["function_call"]["arguments"]
    return message.get("content")


def _first_token(choice: dict[str, Any]) -> dict[str, float] | None:
    """The log-probabilities of the first token's likeliest values; None: the server gives none."""
    given = choice.get("logprobs") or {}
    tokens = given.get("content" if "message" in choice else "top_logprobs")
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
    """What a status other than 200 means. The server's own words may repeat key or prompt: none of them is told.

    Returns:
        `Fault`: it may pass. `Refused`: this request will never be answered. `InputError`, `StoppedError`: none will.
    """
    error = body if isinstance(body, dict) else {}
    code, message, parameter = error.get("code"), str(error.get("message")), error.get("param")
    asked = f"{options.subject}: {endpoint}"
    if status in (401, 403, 404):
        remedy = options.other_model if status == 404 else "check OPENAI_API_KEY and what it may use"
        return InputError(f"{asked} refuses model {model or options.model} (HTTP {status}); {remedy}")
    if status == 402 or code == "insufficient_quota":
        return StoppedError(f"{asked} says that the key's quota is used up (HTTP {status}); add to it and run it again")
    if status in (408, 409, 425, 429) or status >= 500:
        return Fault(f"HTTP {status}", wait=_retry_after(headers.get("retry-after")))
    if status == 413 or code in ("context_length_exceeded", "string_above_max_length") or _TOO_LONG.search(message):
        limit = options.decoding.max_tokens
        return Refused(f"too long: the prompt and {limit} tokens to answer exceed what the server takes", ill=False)
    if code in ("content_filter", "content_policy_violation"):
        return Refused("content filter", ill=False)
    known = {*request_body(options, Request("", ""))[1], *request_body(options, Request("", []))[1]}
    if code in ("unsupported_parameter", "unsupported_value") and parameter in known:
        return InputError(
            f"{asked}: model {options.model} does not take the {parameter} of this judge (HTTP {status}); "
            "name another with --judge-model, or write a judge card of your own with what it takes"
        )
    return Refused(f"HTTP {status}")


def _retry_after(value: str | None) -> float | None:
    """Seconds from now, of a header that holds seconds or an HTTP date; None: there is none, or it is neither."""
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
