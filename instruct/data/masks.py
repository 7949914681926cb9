"""Which text of a chat is trained on: rendered, marked answer by answer, and checked by the prefix.

The template is asked, never parsed. Rendered up to an answer, it gives the prompt that a server will send; rendered
with the answer, it gives the prompt and the reply with its end. So templates need no `{% generation %}` markers. An
answer is not trained if its text, its thinking, its tool calls or the tools did not reach the text. The tokens before
an answer are those of its prompt.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from instruct.base.chat_template import TemplateError
from instruct.base.errors import InputError
from instruct.data.formats import is_answer
from instruct.data.templates import (
    DEFAULT,
    GEMMA_CHANNEL,
    MODES,
    Rendering,
    takes_system,
    thinking_of,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_PROBE = "probe"
_EMPTY_THOUGHT = re.compile(r"\s*(<think>)?\s*</think>|<think>\s*</think>|<\|channel>thought\s*<channel\|>")
_ASKED = [{"role": "user", "content": "Hello"}]
_CALL = {"name": _PROBE, "arguments": {_PROBE: _PROBE}}


@dataclass(frozen=True)
class _AnswerEnd:
    """What a chat template puts around an answer.

    Attributes:
        before: text between the prompt and the answer, which the model has to write.
        after: text after the answer.
        learned: the part of `after` up to and including the end token.
    """

    before: str
    after: str
    learned: str


@dataclass
class ChatTemplate:
    """A tokenizer's (or processor's) chat template, and how it ends an answer.

    Attributes:
        rendering: how chats become text.
        facts: counts, for people, what the chats that were read have: `answers`, those with `thinking` and `without`
            it if the template knows thinking, `empty` thoughts that are trained on, text `beside` a tool call that the
            template drops, `system` turns that it rejects, prompts that a server sends only if it is asked with
            thinking on or off (`asked_on`, `asked_off`).
    """

    tokenizer: Any
    rendering: Rendering = DEFAULT
    facts: Counter[str] = field(default_factory=Counter)

    def render(self, messages: Sequence[Any], *, prompt: bool = False, **more: Any) -> str:
        """The chat as text, see `Rendering.render`."""
        return self.rendering.render(self.tokenizer, messages, prompt=prompt, **more)

    def rows(self, row: Mapping[str, Any], context: float) -> list[tuple[list[str], list[tuple[float, bool]]]]:
        """A chat as the fewest texts in which each answer follows exactly the prompt that the model is asked with.

        Args:
            row: as `to_row` returns it.
            context: the weight of the context; above 0, answers in it that have a weight are pieces, too.

        Returns:
            Of each text its pieces, alternately context and an answer with its end token; the last is an answer. And of
            its answers the weight, and whether it is one to train on.

        Raises:
            InputError: the template does not reproduce a prompt or an answer.
        """
        more = {**row.get("chat_template_kwargs", {}), **({"tools": row["tools"]} if "tools" in row else {})}
        messages = [*row["messages"]] if "messages" in row else [*row["prompt"], *row["completion"]]
        first = 1 if "messages" in row else len(row["prompt"])
        weights: dict[int, tuple[float, bool]] = {}  # by answer
        for index, message in enumerate(messages[1:], start=1):
            weight = message.get("weight", 1.0)
            if index >= first and weight and is_answer(message):
                weights[index] = weight, True
            elif context and weight != 1 and is_answer(message):
                weights[index] = context * weight, False
        answers = [*weights]
        facts: Counter[str] = Counter()
        replies = [self._reply(messages[: index + 1], more, facts) for index in answers]
        self._check_prompt(messages[: answers[-1]], replies[-1][0], more | self._mode(messages[answers[-1]], more))
        facts["system"] = messages[0]["role"] == "system" and not takes_system(self.tokenizer)
        self.facts += facts
        texts: list[tuple[str, list[str], list[tuple[float, bool]]]] = []
        for index, (prompt, reply) in zip(answers, replies, strict=True):
            # Those that the prompt goes on with are prefixes of each other, and fewer prompts go on with the longest.
            open_texts = [text for text in texts if prompt.startswith(text[0])]
            begun = max(open_texts, key=lambda text: len(text[0]), default=("", [], []))
            texts = [text for text in texts if text is not begun]
            pieces = [*begun[1], prompt[len(begun[0]) :], reply]
            texts.append((prompt + reply, pieces, [*begun[2], weights[index]]))
        return [(pieces, of_answers) for _, pieces, of_answers in texts]

    def _reply(self, messages: list[Any], more: dict[str, Any], facts: Counter[str]) -> tuple[str, str]:
        """The prompt of the last of `messages` and the reply that is trained on after it."""
        message = messages[-1]
        thinking, text = self._thinking(message)
        default, more = more, more | self._mode(message, more)
        end = self._ends[bool(thinking) or self.rendering.empty_thinking]
        prompt = self.render(messages[:-1], prompt=True, **more)
        first_problem = None
        for rest, chat in self._written(messages, prompt, more):
            problem = self._problem(rest, message, end)
            if problem is None:
                self._check_calls(chat, more)
                break
            first_problem = first_problem or problem
        else:
            raise self._unusable(first_problem or "changes the prompt of this row", row=True)
        reply = self._ended(rest, end)
        off = {**more, **dict.fromkeys(MODES, False)}
        is_on = self._thinks and off != more and prompt != self.render(messages[:-1], prompt=True, **off)
        unthought = not thinking and (is_on or bool(_EMPTY_THOUGHT.match(reply)))
        if unthought and not self.rendering.empty_thinking:
            raise InputError(
                "an answer without thinking would be trained after a prompt that asks for thinking, which teaches the "
                "model not to think; remove the row, give it reasoning_content, turn thinking off if the chat template "
                "can (enable_thinking), or set empty_thinking: train"
            )
        if self._thinks and prompt != self.render(messages[:-1], prompt=True, **default):
            facts["asked_on" if thinking or self.rendering.empty_thinking else "asked_off"] += 1
        facts.update(
            answers=1,
            thinking=bool(thinking),
            without=not thinking and self._thinks,
            empty=unthought,
            beside=bool(message.get("tool_calls") and text.strip() and text.strip() not in rest),
        )
        return prompt, reply

    def _thinking(self, message: Mapping[str, Any]) -> tuple[str, str]:
        return thinking_of(message, self._template)

    @property
    def _template(self) -> str:
        return str(self.tokenizer.chat_template or "")

    def _mode(self, message: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, bool]:
        """The template's switch: on for an answer with thinking, else off; what the user set wins."""
        if any(name in {**self.rendering.arguments, **more} for name in MODES):
            return {}
        return dict.fromkeys(MODES, bool(self._thinking(message)[0]) or self.rendering.empty_thinking)

    def _written(self, messages: list[Any], prompt: str, more: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
        """What the model may write after the prompt, as the template renders the last message; best first.

        Returns:
            Each with the chat that it was rendered in.
        """
        thinking, _ = self._thinking(messages[-1])
        # Where the whole chat has another past than the prompt, the reply is that of a chat of one turn.
        for chat in (messages, [*_ASKED, messages[-1]]):
            own = prompt if chat is messages else self.render(chat[:-1], prompt=True, **more)
            whole = self.render(chat, **more)
            if whole.startswith(own):
                rest = whole[len(own) :]
                yield (rest if chat is messages else _without_opening(prompt, rest)), chat
                if thinking and GEMMA_CHANNEL in self._template:  # some of its templates drop the last thinking
                    yield _without_opening(prompt, f"{GEMMA_CHANNEL}thought\n{thinking}\n<channel|>{rest}"), chat
            else:
                opened = _after_opened_thought(prompt, whole, thinking) if chat is messages else None
                if opened is not None:
                    yield opened, chat

    def _problem(self, rest: str, message: Mapping[str, Any], end: _AnswerEnd) -> str | None:
        """What of an answer is wrong or missing in its rendering, if anything."""
        thinking, text = self._thinking(message)
        calls = message.get("tool_calls")
        if thinking and thinking.strip() not in rest:
            return "does not render the thinking of an answer (reasoning_content)"
        if calls:
            return None
        if thinking:
            return None if text.strip() in rest else "does not render the text of an answer"
        # A template may render a text without white space at its ends.
        forms = (text, text.lstrip("\n"), text.rstrip(), text.lstrip(), text.strip())
        before = next((rest.removesuffix(form + end.after) for form in forms if rest.endswith(form + end.after)), None)
        if before is not None and (before in ("", end.before) or _EMPTY_THOUGHT.fullmatch(before.strip())):
            return None
        return "changes the answer of this row"

    def _check_calls(self, messages: list[Any], more: dict[str, Any]) -> None:
        """Refuse a last message whose tool calls, or one of them, did not reach the text."""
        calls = messages[-1].get("tool_calls")
        if not calls:
            return
        whole = self.render(messages, **more)
        for number, call in enumerate(calls):
            changed = {**call, "function": _CALL} if "function" in call else {**call, **_CALL}
            other = {**messages[-1], "tool_calls": [*calls[:number], changed, *calls[number + 1 :]]}
            if self.render([*messages[:-1], other], **more) == whole:
                raise self._unusable(f"does not render tool call {number + 1} of an answer", row=True)

    def _check_prompt(self, messages: list[Any], prompt: str, more: dict[str, Any]) -> None:
        """Refuse a chat of which a turn, a call or the tools did not reach the prompt."""
        if more.get("tools") and self.render(messages, prompt=True, **{**more, "tools": None}) == prompt:
            raise self._unusable("does not render the row's tools", row=True)
        for index, message in enumerate(messages):
            text = message["content"].strip()
            if message["role"] != "assistant" and text and text not in prompt:
                changed = [*messages[:index], {**message, "content": _PROBE}, *messages[index + 1 :]]
                if self.render(changed, prompt=True, **more) == prompt:
                    raise self._unusable(f"does not render a {message['role']} turn of this row", row=True)
            self._check_calls(messages[: index + 1], more)

    def _ended(self, rest: str, end: _AnswerEnd) -> str:
        """A reply up to its end token."""
        if end.learned and rest.endswith(end.after):
            return rest.removesuffix(end.after) + end.learned
        text = rest.rstrip()
        if text.endswith(tuple(self._special)):  # a tool call may have another end token than an answer
            return text
        if end.learned:
            raise self._unusable("ends a tool call without a special token", row=True)
        return rest.removesuffix(end.after) + self._end_of_text

    def _unusable(self, what: str, row: bool = False) -> InputError:
        fix = "fix the row, or " if row else ""
        return InputError(f"the tokenizer's chat template {what}; {fix}{self.rendering.remedy}")

    @property
    def _own(self) -> Any:
        """The tokenizer, also of a processor."""
        return getattr(self.tokenizer, "tokenizer", self.tokenizer)

    @cached_property
    def _special(self) -> list[str]:
        added = [token.content for token in self._own.added_tokens_decoder.values() if token.special]
        return [token for token in dict.fromkeys([*map(str, self._own.all_special_tokens), *added]) if token]

    @cached_property
    def _end_of_text(self) -> str:
        """The tokenizer's end token, for a template without one, if generation stops there."""
        from transformers import GenerationConfig

        token, folder = str(self._own.eos_token), str(self._own.name_or_path)
        try:
            stops = GenerationConfig.from_pretrained(folder).eos_token_id if folder else None
        except (OSError, ValueError):  # optional
            stops = None
        ids = stops if isinstance(stops, list) else [stops]
        if stops is not None and self._own.convert_tokens_to_ids(token) not in ids:
            named = ", ".join(map(str, self._own.convert_ids_to_tokens(ids)))
            raise TemplateError(
                f"the tokenizer's chat template ends an answer without a token, and by the model's generation config "
                f"generation does not stop at the tokenizer's {token}; set eos_token to where it stops ({named})"
            )
        return token

    @cached_property
    def _thinks(self) -> bool:
        """Whether the template knows thinking: it has a switch, or opens a thought."""
        on, off = (self.render(_ASKED, prompt=True, **dict.fromkeys(MODES, mode)) for mode in (True, False))
        return on != off or on.rstrip().endswith("<think>")

    @cached_property
    def _ends(self) -> dict[bool, _AnswerEnd]:
        """The text around an answer with and without thinking, found with a chat of one turn."""
        return {thinks: self._find_end(thinks) for thinks in (False, True)}

    def _find_end(self, thinks: bool) -> _AnswerEnd:
        mode = {} if not self.rendering.arguments.keys().isdisjoint(MODES) else dict.fromkeys(MODES, thinks)
        prompt = self.render(_ASKED, prompt=True, **mode)
        answered = [*_ASKED, {"role": "assistant", "content": _PROBE}]
        whole = self.render(answered, **mode)
        before, probe, after = whole.rpartition(_PROBE)
        if not probe:
            raise self._unusable("does not render the answer")
        if not whole.startswith(prompt) and not _after_opened_thought(prompt, whole, ""):
            raise self._unusable("changes the prompt when an answer follows")
        before = before[len(prompt) :] if before.startswith(prompt) else ""
        ends = [(after.index(token), -len(token), token) for token in self._special if token in after]
        if not ends:
            if after.strip() or not self._own.eos_token:
                raise self._unusable("ends an answer without a special token, so the model could not learn to stop")
            return _AnswerEnd(before, after, "")
        begin, _, token = min(ends)
        learned = after[:begin] + token
        # Some templates end an answer with two tokens, of which the second one stops generation. Others close the chat
        # with another token, which no earlier answer has.
        twice = self.render([*answered, *_ASKED], prompt=True, **mode)
        while following := next((t for t in self._special if after.startswith(learned + t)), None):
            if _PROBE + learned + following not in twice:
                break
            learned += following
        return _AnswerEnd(before, after, learned)


def _after_opened_thought(prompt: str, whole: str, thinking: str) -> str | None:
    """The reply to a prompt that opens a thought which the template leaves out of the chat, as DeepSeek-R1's does.

    Models of these families write their thinking, `</think>` and their answer; servers' parsers read that form.
    """
    opened = prompt.rstrip()
    base = opened.removesuffix("<think>")
    if base == opened or not whole.startswith(base):
        return None
    rest = whole[len(base) :]
    if rest.startswith("<think>"):
        return rest.removeprefix("<think>").lstrip("\n")
    return f"{thinking}\n</think>\n\n{rest}"


def _without_opening(prompt: str, reply: str) -> str:
    """The reply to a prompt that has opened its thought."""
    openings = (GEMMA_CHANNEL + "thought\n", "<think>\n", "<think>")
    return next((reply[len(o) :] for o in openings if prompt.endswith(o) and reply.startswith(o)), reply)


def piece_token_ids(tokenizer: PreTrainedTokenizerBase, pieces: Sequence[str]) -> list[list[int]]:
    """The token ids of every piece of a text, see `ChatTemplate.rows`.

    The tokens before an answer are those of the prompt that generation would use, so that the model answers from what
    it has seen. Each prompt and each answer has to be a prefix of the whole text in tokens, too; where one is not,
    because its last token would merge with what follows, the pieces are tokenized separately.

    Raises:
        InputError: separately tokenized pieces have another text than the whole.
    """
    ids, *prefixes = rendered_token_ids(tokenizer, ["".join(pieces), *itertools.accumulate(pieces[:-1])])
    if all(ids[: len(prefix)] == prefix for prefix in prefixes):
        bounds = [0, *map(len, prefixes), len(ids)]
        return [ids[begin:end] for begin, end in itertools.pairwise(bounds)]
    apart = rendered_token_ids(tokenizer, pieces)
    if tokenizer.decode(list(itertools.chain(*apart))) != tokenizer.decode(ids):
        if any(context[-1:].isspace() for context in pieces[0::2]):
            raise TemplateError(
                "the chat template ends a prompt in white space, which the tokenizer merges with the answer that "
                "follows; use a chat template without that white space"
            )
        raise InputError(
            "the tokenizer merges the start of an answer with the text before it; change how that answer starts"
        )
    return apart


def rendered_token_ids(tokenizer: PreTrainedTokenizerBase, texts: Iterable[str]) -> list[list[int]]:
    """The tokens of rendered texts: a chat template writes its special tokens itself."""
    ids: list[list[int]] = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    return ids
