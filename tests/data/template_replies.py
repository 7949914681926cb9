"""What the models of TRL's chat templates reply, written by hand from the templates and the models' cards.

Nothing here asks the code under test: a reply is these strings around a text, and a prompt is what the tokenizer's own
`apply_chat_template(add_generation_prompt=True)` returns.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Call = dict[str, int]


def _json(name: str) -> Callable[[Call], str]:
    return lambda call: json.dumps({"name": "add", name: call})


def _hermes(calls: list[Call], text: str) -> str:
    written = [f"<tool_call>\n{_json('arguments')(call)}\n</tool_call>" for call in calls]
    return "\n".join([text, *written] if text else written)


def _xml(call: Call) -> str:
    parameters = "".join(f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in call.items())
    return f"<tool_call>\n<function=add>\n{parameters}</function>\n</tool_call>"


def _qwen_xml(calls: list[Call], text: str) -> str:
    return (text + "\n\n" if text else "") + "\n".join(map(_xml, calls))


def _nemotron(calls: list[Call], text: str) -> str:
    return text + "\n" + "".join(_xml(call) + "\n" for call in calls)


def _gemma(calls: list[Call], text: str) -> str:
    written = (",".join(f"{name}:{value}" for name, value in call.items()) for call in calls)
    return "".join(f"<|tool_call>call:add{{{each}}}<tool_call|>" for each in written) + text


def _lfm(calls: list[Call], text: str) -> str:
    written = (", ".join(f"{name}={value}" for name, value in call.items()) for call in calls)
    return f"{text}<|tool_call_start|>[{', '.join(f'add({each})' for each in written)}]<|tool_call_end|>"


def _llama(calls: list[Call], text: str) -> str:
    return _json("parameters")(calls[0])  # without the text beside it


def _glm(calls: list[Call], text: str) -> str:
    written = (
        "".join(f"<arg_key>{name}</arg_key>\n<arg_value>{value}</arg_value>\n" for name, value in call.items())
        for call in calls
    )
    lines = [text] if text else []
    return "\n".join([*lines, *(f"<tool_call>add\n{each}</tool_call>" for each in written)])


def _muse(calls: list[Call], text: str) -> str:
    written = (
        "".join(f'<atem:parameter name="{name}">{value}</atem:parameter>\n' for name, value in call.items())
        for call in calls
    )
    return "<|eom|><|start|>assistant".join(
        f' to=add<|message|><atem:function_calls>\n<atem:invoke name="add">\n{each}</atem:invoke>\n'
        "</atem:function_calls>"
        for each in written
    )


def _harmony(calls: list[Call], text: str) -> str:
    thought = f"<|channel|>analysis<|message|>{text}<|end|><|start|>assistant" if text else ""
    return f"{thought} to=functions.add<|channel|>commentary json<|message|>{json.dumps(calls[0])}"


def _deepseek(calls: list[Call], text: str) -> str:
    written = (
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{json.dumps(call)}\n```<｜tool▁call▁end｜>"
        for call in calls
    )
    return f"{text}<｜tool▁calls▁begin｜>" + "\n".join(written) + "<｜tool▁calls▁end｜>"


@dataclass(frozen=True)
class Replies:
    """How a family writes a reply.

    Attributes:
        end: after a reply; of calls `call_end`, if it is another one.
        before: between the prompt and the text.
        thought: before the text of a reply that thinks, and before its calls `call_thought`, if it is another one.
        calls: of tools, with the text beside them.
        white: how it writes a text with white space at both ends.
        key: under which the template reads thinking.
        parts: whether a message's content is a list of parts.
        opened: what a prompt may end with that opens the thought.
        system: whether the template has a system role; without one, its text begins the first user turn.
    """

    end: str
    before: str = ""
    thought: str | None = None
    calls: Callable[[list[Call], str], str] | None = None
    call_end: str | None = None
    call_thought: str | None = None
    white: Callable[[str], str] = str
    key: str = "reasoning_content"
    parts: bool = False
    opened: str = ""
    system: bool = True

    def reply(self, text: str, thinking: str | None, calls: list[Call], prompt: str) -> str:
        """What the model replies."""
        if calls:
            assert self.calls
            written = self.calls(calls, self.white(text)) + (self.call_end or self.end)
        else:
            written = self.before + self.white(text) + self.end
        if thinking is not None:
            thought = (self.call_thought if calls else None) or self.thought
            assert thought
            thought = thought.format(thinking)
            if self.opened and prompt.endswith(self.opened):
                thought = thought.removeprefix(self.opened)
            return thought + written
        return written


def _strip(text: str) -> str:
    return text.strip()


def _of(base: Replies, **changed: Any) -> Replies:
    return Replies(**{**base.__dict__, **changed})


IM_END = Replies("<|im_end|>")
LLAMA = Replies("<|eot_id|>", white=_strip)
TOOL_LLAMA = _of(LLAMA, calls=_llama)
GEMMA = Replies("<end_of_turn>", white=_strip)
GEMMA_4 = Replies(
    "<turn|>", thought="<|channel>thought\n{}\n<channel|>", calls=_gemma, call_end="<|tool_response>", white=_strip,
    opened="<|channel>thought\n",
)  # fmt: skip
LFM = _of(IM_END, calls=_lfm)
LFM_THINKS = _of(LFM, thought="<think>{}</think>", key="thinking")
QWEN_3 = _of(IM_END, thought="<think>\n{}\n</think>\n\n", calls=_hermes, white=lambda text: text.lstrip("\n"))
QWEN_3_5 = _of(IM_END, thought="{}\n</think>\n\n", calls=_qwen_xml, white=_strip)
NEMOTRON = _of(IM_END, thought="{}\n</think>\n", call_thought="{}\n</think>", calls=_nemotron, white=str.rstrip)
TERSE_NEMOTRON = _of(NEMOTRON, thought="{}</think>", call_thought="{}</think>")
PHI = Replies("<|end|>")
PICTURES = Replies("<end_of_utterance>", before=" ", parts=True)
# Both turn the content of the last answer into nothing but its text; what their models write is in the cards.
DEEPSEEK = Replies("<｜end▁of▁sentence｜>", thought="{}\n</think>\n\n")

REPLIES = {
    "cohere": Replies("<|END_OF_TURN_TOKEN|>", white=_strip),
    "cohere2": Replies("<|END_RESPONSE|><|END_OF_TURN_TOKEN|>"),
    "deepseek_r1_distill": DEEPSEEK,
    "deepseekv3": _of(DEEPSEEK, calls=_deepseek),
    "diffusion_gemma": GEMMA_4,
    "gemma": _of(GEMMA, system=False),
    "gemma3": GEMMA,
    "gemma4": GEMMA_4,
    "gemma4_v2": _of(GEMMA_4, call_end=None),
    "gemma4_v3": GEMMA_4,
    "gemma4_v4": GEMMA_4,
    "gemma4_v5": GEMMA_4,
    # No end token: the tokenizer's.
    "glm4moe": Replies(
        "</s>", before="\n", thought="\n<think>{}</think>", calls=lambda calls, text: "\n" + _glm(calls, text),
        white=_strip,
    ),
    "gptoss": Replies(
        "<|return|>", before="<|channel|>final<|message|>",
        thought="<|channel|>analysis<|message|>{}<|end|><|start|>assistant", calls=_harmony, call_end="<|call|>",
        key="thinking",
    ),
    "idefics3": PICTURES,
    "lfm2": IM_END,
    "lfm2_2_5": LFM_THINKS,
    "lfm2_2_5_v2": LFM_THINKS,
    "lfm2_2_5_vl": LFM_THINKS,
    "lfm2_v2": LFM,
    "llama3": LLAMA,
    "llama3_1": TOOL_LLAMA,
    "llama3_2": TOOL_LLAMA,
    "llava_next": Replies("</s>", before=" ", parts=True),
    "muse_glimmer": Replies(
        "<|eot|>", before=" to=user<|message|>", thought=" to=self<|message|>{}<|eom|><|start|>assistant", calls=_muse
    ),
    "nemotron_3_5_lightning": TERSE_NEMOTRON,
    "nemotron_3_nano": NEMOTRON,
    "nemotron_3_super": NEMOTRON,
    "nemotron_3_ultra": TERSE_NEMOTRON,
    "phi3": PHI,
    "phi3_5": PHI,
    "qwen2_5": _of(IM_END, calls=_hermes),
    "qwen2_5_vl": IM_END,
    "qwen3": QWEN_3,
    "qwen3_5_nothink": QWEN_3_5,
    "qwen3_5_think": QWEN_3_5,
    "qwen3_6": QWEN_3_5,
    "qwen3_8": QWEN_3_5,
    "qwen3_instruct_2507": _of(IM_END, calls=_hermes),
    "qwen3_vl": _of(IM_END, calls=_hermes),
    "smolvlm": PICTURES,
}  # fmt: skip
