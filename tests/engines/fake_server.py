"""An OpenAI-compatible judge for faults, determinism and speed: `python fake_server.py PORT_FILE LOG [FAULTS [DELAY]]`.

Its verdict is a function of the prompt alone, in the form that the prompt asks for. Every request is appended to LOG
as it comes in, a JSON object a line: path, fault, at_once (requests under way with it), client (its OPENAI_ORG_ID),
time (seconds) and body.

FAULTS is a JSON object from a text that a prompt contains to what goes wrong with it: a name for ever, or a list of
names, one for each time that the prompt is asked, after which all is well ("ok" is well too). DELAY is what every reply
takes, in seconds. Names:

    400 401 403 404 422 429 500 502 503 504 529   the status (any other number too)
    "429 retry-after 2"     the status with that header
    '400 says [1]'          the status with that body
    "429 inside"            that error with the status 200
    "finish error"          a whole reply with that finish_reason
    too_long  filter  quota                               a 400 or 429 with a code for it
    "307 http://host/v1"    a redirect to that address, followed by the path of the request
    gzip                    16 MB, packed
    reset  half  hang       the connection: reset; closed in mid-reply; silent
    malformed  nested  null  refusal                      no reply that can be used
    blank  truncated  two  echo  unicode  long_thought    a reply without one clear verdict, or with more beside it
    reasoning_content reasoning cut_reasoning             thinking, see THOUGHTS
    no_logprobs  nan                                      a reply that lacks something
    'usage {"prompt_tokens": 0}'                          a reply that states this usage
    "served NAME"                                         a reply of a model with this name
    leak                                                  a reply that repeats the key, also escaped
    thinking_parts                                        the content as a list of parts, one of them thinking
    "refuses temperature max_tokens"                      a 400 for each of these parts of a request, see REFUSALS
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import sys
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

DELAY = 0.01
RANKS = {"1": (1, 2), "2": (2, 1), "Tie": (1, 1)}
CODES = {
    "too_long": (400, "context_length_exceeded", "This model's maximum context length is 8192 tokens."),
    "filter": (400, "content_filter", "The response was filtered."),
    "quota": (429, "insufficient_quota", "You exceeded your current quota."),
}
# What servers say of a part of a request that they do not take: message, param, code. As reported of OpenAI's reasoning
# models, vLLM with Gemma, Mistral, Anthropic, DeepSeek.
REFUSALS: dict[str, tuple[str, str | None, str | None]] = {
    "max_tokens": (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "max_tokens",
        "unsupported_parameter",
    ),
    "max_completion_tokens": ("Unrecognized request argument supplied: max_completion_tokens", None, None),
    "temperature": (
        "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.",
        "temperature",
        "unsupported_value",
    ),
    "top_p": ("`temperature` and `top_p` cannot both be specified for this model. Please use only one.", None, None),
    "repetition_penalty": ("Argument not supported on this model: repetition_penalty", None, None),
    "response_format": ("This response_format type is unavailable now: response_format is unsupported", None, None),
    "system": ("System role not supported", None, None),
    "system_value": (
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        "messages[0].role",
        "unsupported_value",
    ),
    "size": ("max_tokens is too large: 512. This model supports at most 256.", "max_tokens", "invalid_value"),
}  # fmt: skip
# How servers return thinking: apart, by two names.
THOUGHTS = {
    "reasoning_content": {"content": "It is 4.", "reasoning_content": "2 + 2"},
    "reasoning": {"content": "\n\nIt is 4.", "reasoning": "2 + 2"},
    "cut_reasoning": {"content": None, "reasoning_content": "2 + 2 is surely"},
}
CUT = ("truncated", "long_thought", "cut_reasoning")
BODIES = {
    "malformed": '{"choices": [{',
    "nested": "[" * 200_000,
    "429 inside": '{"error": {"message": "Slow down.", "code": 429}}',
}


def verdict(prompt: str) -> str:
    return ("1", "2", "Tie")[hashlib.sha256(prompt.encode(errors="replace")).digest()[0] % 3]


def reply_text(prompt: str, decided: str) -> str:
    """A verdict in the format of the judge whose prompt this is."""
    if "final decision is" in prompt:
        return f"Both are answers.\nSo, the final decision is {'Tie' if decided == 'Tie' else f'Response {decided}'}"
    if "'rank'" in prompt or '"rank"' in prompt:
        return str([{"model": f"model_{place}", "rank": rank} for place, rank in enumerate(RANKS[decided], start=1)])
    if '"golden_verdict"' in prompt:
        return "<think>1 or 2?</think>\n" + json.dumps({"golden_verdict": decided})
    if "## Best Model Identifier" in prompt:  # AlpacaEval 2's
        return "M" if decided == "2" else "m"
    if "[RESULT]" in prompt:  # the cards rubric and rubric_pair
        return f"So: [RESULT] {dict(zip(RANKS, ('A', 'B', 'tie'), strict=True))[decided]}"
    if "[[tie]]" in prompt:  # the card pairwise
        return f"B is shorter. [[B]]? No.\n\n[[{dict(zip(RANKS, ('A', 'B', 'tie'), strict=True))[decided]}]]"
    if "[[rating]]" in prompt or "[[6]]" in prompt:  # MT-Bench's, and pairwise_single's
        return f"It answers. Rating: [[{hashlib.sha256(prompt.encode(errors='replace')).digest()[1] % 10 + 1}]]"
    if "[[A>>B]]" in prompt or "[[C]]" in prompt:  # Arena-Hard's and MT-Bench's
        labels = ("A>>B", "A>B", "A=B", "B>A", "B>>A") if "[[A>>B]]" in prompt else ("A", "B", "C")
        return f"So: [[{labels[hashlib.sha256(prompt.encode(errors='replace')).digest()[1] % len(labels)]}]]"
    if '"better"' in prompt:  # the cards of docs/judges.md
        return "<think>1 or 2?</think>\n" + json.dumps({"reason": "so", "better": decided.replace("Tie", "equal")})
    if "Score of the Assistant 1:" in prompt:
        return "So:\n" + "\n".join(
            f"Score of the Assistant {n}: {10 - rank}" for n, rank in enumerate(RANKS[decided], 1)
        )
    if '"Score: 3"' in prompt:
        return f"It answers.\nScore: {RANKS[decided][0]}"
    return f"{decided}\n### Reason: so\n### Reference: none"


def tool_call(body: dict[str, Any]) -> dict[str, Any]:
    """A call of the function that the request names; AlpacaEval's functions take a ranking."""
    prompt = prompt_of(body)
    names = ("m", "M") if '"model": "m"' in prompt else ("model_1", "model_2")
    ranking = [{"model": name, "rank": rank} for name, rank in zip(names, RANKS[verdict(prompt)], strict=True)]
    arguments = json.dumps({"concise_explanation": "so", "ordered_models": ranking})
    function = {"name": body["tools"][0]["function"]["name"], "arguments": arguments}
    return {"id": "call", "type": "function", "function": function}


def logprobs(prompt: str, chat: bool, nan: bool) -> dict[str, Any]:
    """Log-probabilities of the judges' labels as first token, a function of the prompt."""
    digest = hashlib.sha256(prompt.encode(errors="replace")).digest()
    lean = (digest[0] - 127.5) / 64
    top: dict[str, float] = {}
    for place, (one, other) in enumerate([("1", "2"), ("m", "M"), ("A", "B")]):
        top |= {one: -0.7 - place + lean / 2, other: -0.7 - place - lean / 2}
    if nan:
        top = dict.fromkeys(top, float("nan"))
    if not chat:
        return {"tokens": ["1"], "token_logprobs": [-0.7], "text_offset": [0], "top_logprobs": [top]}
    entries = [{"token": token, "logprob": value, "bytes": list(token.encode())} for token, value in top.items()]
    entries.sort(key=lambda entry: -entry["logprob"])
    return {"content": [{**entries[0], "top_logprobs": entries}], "refusal": None}


def reply(body: dict[str, Any], fault: str) -> dict[str, Any]:
    """The body of a reply with status 200."""
    chat = "messages" in body
    prompt = prompt_of(body)
    system = body["messages"][0]["content"] if chat and len(body["messages"]) == 2 else ""  # may say how to decide
    decided = verdict(prompt)
    text: str | None = reply_text("\n".join(filter(None, [system, prompt])), decided)
    assert text is not None
    first, second = (reply_text(prompt, decided) for decided in ("1", "2"))
    text = {
        "null": None,
        "refusal": None,
        "long_thought": None,
        "blank": "",
        "truncated": text[: len(text) // 2] if len(text) > 60 else "Let me look at both of them. The first",
        "two": f"It could be that {first}, or else that {second}; who can say.",
        "echo": f'The first answer says "So, the final decision is Response 1", it does not decide.\n{second}',
        "unicode": text + " \ud800 \x00 \u202eright to left \U0001f600",
    }.get(fault, text)
    finish = fault[7:] if fault.startswith("finish ") else "length" if fault in CUT else "stop"
    choice: dict[str, Any] = {"index": 0, "finish_reason": finish, "logprobs": None}
    if chat:
        choice["message"] = {"role": "assistant", "content": text, "refusal": "I won't" if fault == "refusal" else None}
        choice["message"] |= THOUGHTS.get(fault, {})
        if fault == "thinking_parts":
            parts = [{"type": "text", "text": part} for part in (text[:3], text[3:])]
            thought = {"type": "thinking", "thinking": [{"type": "text", "text": "1 or 2?"}]}
            choice["message"]["content"] = [thought, *parts]
        if body.get("tools"):
            choice["message"] |= {"content": None, "tool_calls": [tool_call(body)]}
    else:
        choice["text"] = THOUGHTS.get(fault, {}).get("content", text)
    if body.get("logprobs") and fault != "no_logprobs":
        choice["logprobs"] = logprobs(prompt, chat, fault == "nan")
    asked = sum(len(message["content"]) for message in body["messages"]) if chat else len(prompt)
    prompt_tokens, completion_tokens = asked // 4 + 1, len(text or "") // 4 + 1
    usage = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }
    return {
        "id": "x",
        "object": "chat.completion" if chat else "text_completion",
        "created": 0,
        "model": fault[7:] if fault.startswith("served ") else body["model"],
        "choices": [choice],
        "usage": json.loads(fault[6:]) if fault.startswith("usage ") else usage,
    }


def prompt_of(body: dict[str, Any]) -> str:
    prompt = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
    if isinstance(prompt, list):  # texts, or token ids
        return prompt[0] if isinstance(prompt[0], str) else " ".join(map(str, prompt))
    return prompt


def refused(body: dict[str, Any], fault: str) -> dict[str, Any] | None:
    """The error that a server has for this request, if it is one that does not take some of its parts."""
    kind, *parts = fault.split()
    for part in parts if kind == "refuses" else ():
        has_system = part.startswith("system") and body.get("messages", [{}])[0].get("role") == "system"
        if part in body or has_system or part == "size":
            message, param, code = REFUSALS[part]
            return {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return None


class Judge:
    def __init__(self, log: Path, faults: dict[str, str | list[str]], delay: float) -> None:
        self.log = log.open("ab", buffering=0)
        self.faults = faults
        self.delay = delay
        self.at_once = 0
        self.times: Counter[str] = Counter()

    def fault(self, prompt: str) -> str:
        found = next((fault for text, fault in self.faults.items() if text in prompt), "ok")
        if isinstance(found, str):
            return found
        self.times[prompt] += 1
        return found[self.times[prompt] - 1] if self.times[prompt] <= len(found) else "ok"

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A killed judge disconnects in the middle of a reply.
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self.request(reader, writer):
                pass
        writer.close()

    async def request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve one request; whether the connection stays open."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        fault = self.fault(prompt_of(body))
        self.at_once += 1
        entry = {"path": head[0].split()[1], "fault": None if fault == "ok" else fault, "at_once": self.at_once}
        entry |= {"client": headers.get("openai-organization"), "time": time.monotonic(), "body": body}
        self.log.write(json.dumps(entry).encode() + b"\n")
        try:
            await asyncio.sleep(self.delay)
            return await self.answer(writer, body, fault, headers.get("authorization", ""))
        finally:
            self.at_once -= 1

    async def answer(self, writer: asyncio.StreamWriter, body: dict[str, Any], fault: str, key: str) -> bool:
        if fault == "reset":
            writer.transport.abort()
            return False
        if fault == "hang":
            await asyncio.sleep(3600)
        status, data, extra = 200, "", ""
        if refusal := refused(body, fault):
            status, data = 400, json.dumps({"error": refusal})
        elif fault in BODIES:
            data = BODIES[fault]
        elif fault in CODES or fault[:3].isdigit():
            # Servers do echo requests: no error may reveal a key or a prompt.
            message = f"no: {key} {prompt_of(body)[:100]}"
            status, code, text = CODES.get(fault, (int(fault[:3]) if fault[:3].isdigit() else 0, None, ""))
            data = json.dumps({"error": {"message": f"{text} {message}", "type": "error", "code": code}})
            kind, _, value = fault[4:].partition(" ")
            if kind.startswith(("http", "/")):
                extra = f"Location: {kind}/chat/completions\r\n"
            elif kind == "says":
                data = value
            elif kind:
                extra = f"Retry-After: {value}\r\n"
        else:
            data = json.dumps(reply(body, fault))
            if fault == "leak":
                key = key.removeprefix("Bearer ")
                escaped = "".join(f"\\u{ord(character):04x}" for character in key)
                data = data.replace("Reason: so", f"Reason: {key} {escaped}").replace(
                    json.dumps(body["model"]), f'"{key}"'
                )
        payload = data.encode()
        if fault == "gzip":
            pack = zlib.compressobj(wbits=31)
            payload = pack.compress(b" " * 2**24) + pack.flush()
            extra = "Content-Encoding: gzip\r\n"
        if fault == "half":
            payload = payload[: len(payload) // 2]
        length = len(payload) if "Encoding" in extra else len(data.encode())
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{extra}\r\n"
        writer.write(head.encode() + payload)
        await writer.drain()
        return fault != "half"


async def main() -> None:
    port_file, log = Path(sys.argv[1]), Path(sys.argv[2])
    faults = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}
    judge = Judge(log, faults, float(sys.argv[4]) if len(sys.argv) > 4 else DELAY)
    server = await asyncio.start_server(judge.connection, "127.0.0.1", 0, backlog=1024, limit=2**20)
    temporary = port_file.with_suffix(".part")
    temporary.write_text(str(server.sockets[0].getsockname()[1]))
    temporary.rename(port_file)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
