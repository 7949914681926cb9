"""Requests to an OpenAI-compatible server, and what its replies and refusals mean."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instruct.base.errors import InputError, StoppedError, one_line
from instruct.base.replies import Completion, ScoredCompletion, parted_after
from instruct.engines.base import LIMITS, EngineOptions, Prompt, Request

# SQLite's largest integer.
_LARGEST = 2**63 - 1
_TOO_LONG = re.compile(r"context[ _]?(length|size|window)|max(imum)?[ _]model[ _]len|too many tokens", re.IGNORECASE)
# How servers word that they do not know, or do not take, a parameter or a role; OpenAI's "unsupported_value" is of a
# temperature other than 1.
_UNSUPPORTED = re.compile(
    r"unsupported|n[o']t (be )?(support|accept|permitted|allowed|enabled)|no longer|deprecated|unknown|unrecogni[sz]ed"
    r"|unexpected|extra[ _](inputs?|forbidden)|cannot both|only \S+ is (allowed|supported)|may only be",
    re.IGNORECASE,
)
_SYSTEM = re.compile(r"\b(system|developer)\W+(role|message|prompt|instruction)s?|role\b.*\bsystem\b", re.IGNORECASE)
_ALTERNATE = re.compile(r"roles must alternate", re.IGNORECASE)  # of chat templates that know user and assistant alone
SYSTEM_TURN = "system turn"
# Without these there is no request, or no verdict.
_NEEDED = frozenset({"model", "messages", "prompt", "logprobs", "top_logprobs", "tools", "tool_choice"})
_NEEDED |= {"echo", "min_tokens"}
# Characters of a server's own words that are printed, and what may be a key in them.
_WORDS = 200
# How a reply ends that the provider did not break off.
_COMPLETE = frozenset({"stop", "length", "tool_calls", "eos", "eos_token", "stop_sequence", "end_turn"})
NO_CONNECTION = "no connection"
_SHORTEST_KEY = 6  # shorter ones, such as "none" for a server of one's own, are words
_KEY = re.compile(r"\bsk-[\w*-]{4,}|\bBearer\s+\S+")


@dataclass(eq=False)
class Refused(Exception):
    """This request will never be answered. `ill`: the server may be broken; `remedy`: what helps, to be printed."""

    reason: str
    ill: bool = True
    remedy: str = ""


@dataclass(eq=False)
class Fault(Exception):
    """No usable reply this time. `answered`: it may have been charged for; `wait`: its Retry-After."""

    reason: str
    answered: bool = False
    usage: tuple[int | None, int | None] = (None, None)
    wait: str | None = None


@dataclass(eq=False)
class NoLogprobs(Exception):
    """The reply lacks the log-probabilities that are needed. `completion`: the reply without them."""

    completion: Completion


class NoScore(Exception):
    """The server does not return the log-probabilities of a prompt."""


@dataclass(eq=False)
class ErrorStatus(Exception):
    """A reply with an error's status. `problem`: the object in its body that says what is wrong; {} if it has none."""

    status: int
    headers: Mapping[str, str]
    problem: Any

    def __post_init__(self) -> None:
        self.problem = _cleaned(self.problem)

    @property
    def code(self) -> str:
        """OpenAI's code for the error, "" without one."""
        return self._text("code")

    @property
    def parameter(self) -> str:
        """The parameter that the server names as the cause, "" without one."""
        return self._text("param")

    @property
    def words(self) -> str:
        """What the server says, on one line, without a key."""
        problem = self.problem
        if isinstance(problem, dict) and isinstance(message := problem.get("message"), str):
            problem = message
        said = problem if isinstance(problem, str) else json.dumps(problem) if problem else ""
        return _KEY.sub("(a key)", said)

    def quoted(self) -> str:
        """Status, code and parameter, and the server's own words, cut."""
        about = ", ".join(filter(None, [self.code, self.parameter]))
        words = f': "{one_line(self.words, _WORDS)}"' if self.words else ""
        return f"HTTP {self.status}{f' ({about})' if about else ''}{words}"

    def _text(self, name: str) -> str:
        value = self.problem.get(name) if isinstance(self.problem, dict) else None
        return one_line(value, 60) if isinstance(value, str) else ""


def problem_in(body: bytes | bytearray) -> Any:
    """What the body of an error says is wrong: the object that says it, or text."""
    try:
        problem = json.loads(body)
    except (ValueError, RecursionError):
        return body.decode(errors="replace")
    if isinstance(problem, list) and problem:  # Google's
        problem = problem[0]
    return (problem.get("error") or problem) if isinstance(problem, dict) else problem


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
    """The path below the base URL, and the JSON object sent there, without parameters that are None."""
    decoding, prompt = options.decoding, request.prompt
    limit = request.max_tokens or (decoding.max_tokens if decoding.extra.get("max_tokens", 0) is not None else None)
    body: dict[str, Any] = {
        "model": request.adapter or options.model,
        "temperature": decoding.temperature if request.temperature is None else request.temperature,
        "top_p": decoding.top_p,
        "repetition_penalty": decoding.repetition_penalty,
        "seed": request.seed,
        "min_tokens": request.min_tokens or None,  # vLLM's; OpenAI's own endpoint has no such parameter
    }
    if options.response_schema is not None:
        schema = {"name": "verdict", "schema": options.response_schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if isinstance(prompt, list):
        messages = [{**message, "content": well_formed(message["content"])} for message in prompt]
        body |= {"messages": messages, max_tokens_name: limit}
        if options.labels:
            body |= {"logprobs": True, "top_logprobs": 20}
        return "/chat/completions", _without_none(body | decoding.extra)
    body |= {"prompt": well_formed(prompt) if isinstance(prompt, str) else list(prompt), "max_tokens": limit}
    if request.scored is not None:
        body |= {"max_tokens": 1, "echo": True, "logprobs": 1}
    if options.labels:
        body["logprobs"] = 5  # the most that OpenAI's own endpoint gives
    return "/completions", _without_none(body | decoding.extra)


def _without_none(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}


def refused_part(error: ErrorStatus, body: Mapping[str, Any], merges_system: bool) -> str | None:
    """The part of a request that a server refuses by name, and that it can be asked without; None: no such part.

    Args:
        body: what was sent.
        merges_system: the system turn may become part of the user's.
    """
    if error.status not in (400, 422):
        return None
    said = f"{error.code} {error.words}"
    messages = body.get("messages") or [{}]
    if messages[0].get("role") == "system" and (
        _ALTERNATE.search(said) or (_UNSUPPORTED.search(said) and _SYSTEM.search(said))
    ):
        return SYSTEM_TURN if merges_system else None
    if _TOO_LONG.search(said) or not _UNSUPPORTED.search(said):
        return None
    names = [
        name for name in body.keys() - _NEEDED if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", error.words)
    ]
    named = error.parameter or min(names, key=error.words.index, default="")
    if {"temperature", "top_p"} <= {*names}:  # some take one of the two
        named = "top_p"
    return named if named in body and named not in _NEEDED else None


def changed_body(body: dict[str, Any], changes: Mapping[str, str | None]) -> tuple[dict[str, Any], str]:
    """A request's body without what the server refuses, and how it differs, in words; "" if it does not.

    Args:
        changes: from a part that `refused_part` named to the name of the parameter in its place; None: without it.
    """
    words = []
    for part, instead in changes.items():
        if part == SYSTEM_TURN and body.get("messages", [{}])[0].get("role") == "system":
            system, *rest = body["messages"]
            asked = next(place for place, message in enumerate(rest) if message["role"] == "user")
            rest[asked] = {**rest[asked], "content": system["content"] + "\n\n" + rest[asked]["content"]}
            body, said = {**body, "messages": rest}, "with the system turn as part of the user's"
        elif part in body:
            body = {instead: body[part], **body} if instead else dict(body)
            del body[part]
            said = f"with {instead} in place of {part}" if instead else f"without {part}"
        else:
            continue
        words.append(said)
    return body, ", ".join(words)


def new_change(part: str, changes: Mapping[str, str | None]) -> dict[str, str | None] | None:
    """What to do about a refused part; None: nothing can be done."""
    if part not in LIMITS:
        return {part: None}
    return None if LIMITS[part] in changes else {part: LIMITS[part]}  # a reply without a limit has no price


def read_reply(options: EngineOptions, data: bytes, prompt: Prompt = "") -> Completion:
    """The completion in the body of a reply with status 200.

    Raises:
        Fault: it is malformed or empty; another attempt may do better.
        Refused: the server does not answer this prompt.
        NoLogprobs: log-probabilities are needed and missing.
        ErrorStatus: it is an error with the wrong status.
    """
    reply = parsed(data)
    if isinstance(reply, dict) and not reply.get("choices") and (problem := reply.get("error")):
        code = problem.get("code") if isinstance(problem, dict) else None
        raise ErrorStatus(code if isinstance(code, int) and 400 <= code < 600 else 502, {}, problem)
    usage: tuple[int | None, int | None] = (None, None)
    try:
        counts = reply.get("usage") or {}
        usage = (_count(counts.get("prompt_tokens")), _count(counts.get("completion_tokens")))
        choice = reply["choices"][0]
        finish = choice.get("finish_reason")
        message = choice.get("message") or {}
        reasoning, calls = message.get("reasoning_content") or message.get("reasoning"), message.get("tool_calls")
        if isinstance(parts := message.get("content"), list):
            texts = (part["text"] for part in parts if isinstance(part, dict) and part.get("type", "text") == "text")
            message["content"] = without_key("".join(map(str, texts)))  # which may be in two of them
        text = _text(choice, "tools" in options.decoding.extra)
        thought = _count((counts.get("completion_tokens_details") or {}).get("reasoning_tokens"))
    except (LookupError, TypeError, AttributeError):
        raise Fault("malformed reply: no choice", answered=True, usage=usage) from None
    if finish == "content_filter":
        raise Refused("content filter", ill=False)
    if finish is not None and str(finish).lower() not in _COMPLETE:
        raise Fault(f"broken off: {one_line(finish, 40)}", answered=True, usage=usage)
    reasoning = reasoning if isinstance(reasoning, str) else None
    if text is None and finish == "length":
        text, reasoning = "", reasoning or ""  # it thought until the limit, and would again
    elif text is None and (reasoning or calls):
        text = ""
    whole = options.parts_thinking and reasoning is None and options.tokenizer is not None
    if whole and isinstance(text, str) and isinstance(prompt, tuple):  # rendered here: its chat template is known
        text, reasoning = parted_after(prompt, text, text, options.tokenizer)
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
        logprobs = parsed(data)["choices"][0].get("logprobs") or {}
        values = logprobs.get("token_logprobs") or ()
    except (LookupError, TypeError, AttributeError):
        raise Fault("malformed reply: no choice", answered=True) from None
    values = values[request.scored : len(request.prompt)]
    if len(values) < len(request.prompt) - (request.scored or 0) or not all(map(_is_number, values)):
        raise NoScore
    return ScoredCompletion("", prompt_tokens=len(request.prompt), token_logprobs=tuple(values))


def parsed(data: bytes) -> Any:
    """The JSON in the body of a reply. NaN and infinity are read as missing.

    Raises:
        Fault: there is none.
    """
    try:
        return _cleaned(json.loads(data.decode("utf-8-sig"), parse_constant=lambda _: None))
    except (ValueError, RecursionError):
        raise Fault("malformed reply: no JSON", answered=True) from None


def _text(choice: dict[str, Any], may_call: bool) -> Any:
    """`may_call`: a model that must call a function answers in its arguments."""
    if "message" not in choice:
        return choice.get("text")
    message = choice["message"]
    if may_call and message.get("tool_calls"):
        return message["tool_calls"][0]["function"]["arguments"]
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
    logprobs = kept.get("logprobs") or {}
    for token in logprobs.get("content") or []:
        token["top_logprobs"] = [entry for entry in token["top_logprobs"] if _is_number(entry["logprob"])]
    said = "".join(logprobs.get("tokens") or [token["token"] for token in logprobs.get("content") or []])
    if without_key(said) != said:  # which may be in several tokens
        kept["logprobs"] = None
    if chat:
        kept["text"] = text if text != "" else " "
    total = _count(usage.get("total_tokens"))
    return kept if total is None else {**kept, "total_tokens": total}


def read_refusal(options: EngineOptions, endpoint: str, error: ErrorStatus, sent: Mapping[str, Any]) -> Exception:
    """What a status other than 200 means, of a request with the body `sent`.

    Returns:
        `Fault`: a retry may help. `Refused`: this request fails. `InputError`, `StoppedError`: all work ends.
    """
    status, code, parameter, words = error.status, error.code, error.parameter, error.words
    asked = f"{options.subject}: {endpoint}"
    if status in (401, 403, 404):
        remedy = options.other_model if status == 404 else "check OPENAI_API_KEY and what it may use"
        return InputError(f"{asked} refuses model {sent['model']} (HTTP {status}); {remedy}")
    if status == 402 or code == "insufficient_quota":
        return StoppedError(
            f"{asked} reports that the key's quota is used up (HTTP {status}); raise it and rerun the command"
        )
    if status in (408, 409, 425, 429, 498) or status >= 500 or code == "json_validate_failed":  # Groq's
        return Fault(f"HTTP {status}", wait=error.headers.get("retry-after"))
    if status == 413 or code in ("context_length_exceeded", "string_above_max_length") or _TOO_LONG.search(words):
        limit = next((f" and {sent[name]} tokens to answer" for name in LIMITS if name in sent), "")
        return Refused(f"too long: the prompt{limit} exceed what the server takes", False, options.shorter)
    if code in ("content_filter", "content_policy_violation"):
        return Refused("content filter", ill=False)
    messages = sent.get("messages") or [{}]
    if messages[0].get("role") == "system" and (parameter == "messages[0].role" or _SYSTEM.search(words)):
        return InputError(f"{asked}: {error.quoted()}; ask without a system prompt, or ask another model")
    named = parameter or next((name for name in LIMITS if name in sent and name in words), "")
    if named in sent.keys() - {"messages", "prompt"}:
        return InputError(f"{asked}: {error.quoted()}; change that parameter, or ask another model")
    about = f" ({', '.join(filter(None, [code, parameter]))})" if code or parameter else ""
    return Refused(f"HTTP {status}{about}", remedy="the same request would be refused again")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST else None


def _cleaned(value: Any) -> Any:
    """A value of JSON whose texts are well-formed, without the key."""
    if isinstance(value, str):
        return without_key(well_formed(value))
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        return {_cleaned(name): _cleaned(item) for name, item in value.items()}
    return value


def api_key() -> str:
    """The key that servers are asked with, "" without one."""
    return os.environ.get("OPENAI_API_KEY", "").strip()


def without_key(text: str) -> str:
    """What a server says, without the API key, which some repeat."""
    if len(api_key()) < _SHORTEST_KEY:
        return text
    return re.sub(re.escape(api_key()), "(the key)", text, flags=re.IGNORECASE)  # a host is in lower case
