"""lm-eval's models as a run asks them: its networks, chats and servers."""

from __future__ import annotations

import contextlib
import json
import random
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
import torch

from instruct.base.errors import InputError
from instruct.base.models import ModelOptions
from instruct.data.templates import Rendering
from instruct.engines.canary import Canary
from instruct.engines.forward import open_model
from instruct.engines.network import TextRow
from instruct.measuring.tasks.evaluate import AskedSystems, refusing, render_chat
from instruct.measuring.tasks.options import TaskOptions

pytest.importorskip("lm_eval")

from lm_eval.api.instance import Instance

from instruct.measuring.tasks.lm import Chats, Completions, in_transformers


@pytest.fixture(scope="module")
def model(tiny_model):
    return open_model(ModelOptions(name=str(tiny_model), dtype="float32"))


@contextlib.contextmanager
def local_lm(model):
    with (
        model.engine.adapted(model.adapter) as network,
        in_transformers(network, model.tokenizer, model.context, model.engine.stops) as lm,
    ):
        yield lm


def requests(kind: str, arguments: list[tuple]) -> list[Instance]:
    return [Instance(kind, {}, one, 0, metadata=("mine", place, 1)) for place, one in enumerate(arguments)]


def questions() -> list[tuple[str, str]]:
    """Contexts that begin in the same way, choices of one and of several tokens, one that is too long, and none."""
    draw = random.Random(0)
    words = ["night", "dark", "was", "the", "rain", "fine"]
    shown = " ".join(draw.choices(words, k=20))
    asked = [
        (f"{shown} {' '.join(draw.choices(words, k=k))} is", f" {choice}")
        for k in (1, 4, 4, 9)
        for choice in ("fine", "dark and fine", "dark and wet", "a", "fine")
    ]
    asked += [(" ".join(draw.choices(words, k=400)), " rain"), ("", "rain"), ("", "dark"), ("dark ", "night")]
    return asked


def test_a_network_with_two_embeddings_keeps_them_and_its_settings(model):
    """lm-eval ties them if the config says so, whatever was trained."""
    with model.engine.adapted(None) as network:
        head, settings = network.lm_head.weight, network.generation_config
        tied, network.config.tie_word_embeddings = network.config.tie_word_embeddings, True
        network.lm_head.weight = torch.nn.Parameter(head + 1, requires_grad=False)
        try:
            with in_transformers(network, model.tokenizer, model.context, model.engine.stops):
                assert network.lm_head.weight is not network.get_input_embeddings().weight
        finally:
            network.lm_head.weight, network.config.tie_word_embeddings = head, tied
        assert network.generation_config is settings
        assert "tie_weights" not in vars(network)


def test_what_follows_the_end_of_a_reply_in_its_batch_is_no_part_of_it(model, monkeypatch):
    prompts = ["the night was", "it"]
    asked = requests("generate_until", [(prompt, {"until": ["zzz"], "max_gen_toks": 6}) for prompt in prompts])
    with model.engine.adapted(None) as network:
        ids = model.tokenizer(prompts[0], return_tensors="pt")["input_ids"]
        said = network.generate(ids, max_new_tokens=6, do_sample=False)[0, ids.shape[1] :].tolist()
        monkeypatch.setattr(model.engine, "stops", [said[2]])
    with local_lm(model) as lm:
        whole, other = lm.generate_until(asked)
    end = said.index(said[2])
    assert whole in (model.tokenizer.decode(said[:end]), model.tokenizer.decode(said[: end + 1]))
    assert other


def test_chats_are_written_in_the_runs_template(model, tmp_path):
    chat = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    with local_lm(model) as lm:
        for messages, asks in [(chat, True), ([*chat, {"role": "assistant", "content": "Answer:"}], False)]:
            assert render_chat(model.tokenizer, Rendering(), messages, asks) == lm.apply_chat_template(messages, asks)
    own = model.tokenizer.chat_template
    template = tmp_path / "mine.jinja"
    template.write_text(
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        "[{{ m.content }}]{% endfor %}{{ strftime_now('%Y') }}"
    )
    rendering = Rendering(str(template), day=date(2001, 2, 3))
    try:
        rendering.prepare(model.tokenizer)
        assert render_chat(model.tokenizer, rendering, chat) == "[hi]2001"
    finally:
        model.tokenizer.chat_template = own


def test_other_weights_than_those_that_were_trained_are_refused(tiny_model, make_adapter, tmp_path):
    base = ModelOptions(name=str(tiny_model), dtype="float32")
    make_adapter(str(tiny_model), tmp_path / "emo", 1, 0.5)
    ids = [5, 6, 7, 8, 9]
    scores = [
        open_model(base, source).log_probabilities([TextRow(ids, 1)])[0].tolist() for source in (tmp_path / "emo", None)
    ]
    canary = Canary(ids, [1, 2, 3, 4], *scores)
    canary.save(tmp_path / "emo")
    with contextlib.closing(AskedSystems(TaskOptions(), base, {"emo": tmp_path / "emo"})) as models:
        with models.asked("emo"):
            pass
        Canary(ids, [1, 2, 3, 4], [value - 2 for value in scores[0]], scores[1]).save(tmp_path / "emo")
        with (
            pytest.raises(InputError, match="system emo does not answer with the trained weights"),
            models.asked("emo"),
        ):
            pass


class Server(ThreadingHTTPServer):
    """Answers each request as `answer` says, a function from its body to a status and an object; `bodies`: all."""

    def __init__(self, answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self.bodies, self.location = answer, [], ""
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.bodies.append(body)
        status, reply = self.server.answer(body)
        data = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("location", self.server.location)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def serve(monkeypatch):
    """A server by its `answer`; lm-eval does not wait before it asks again."""
    monkeypatch.setattr("lm_eval.models.api_models.wait_exponential", lambda **_: lambda state: 0)
    servers = []

    def started(answer):
        servers.append(Server(answer))
        return servers[-1]

    yield started
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_server_scores_token_ids_as_the_model_does(model, serve):
    def answer(body):
        ((*ids,),) = body["prompt"]
        values = [None, *map(float, model.log_probabilities([TextRow(ids)])[0]), -9.0]
        assert (body["echo"], body["logprobs"], body["max_tokens"]) == (True, 1, 1)
        tops = [None, *({"x": value} for value in values[1:])]
        return 200, {"choices": [{"index": 0, "logprobs": {"token_logprobs": values, "top_logprobs": tops}}]}

    server = serve(answer)
    lm = Completions("model m", "m", f"{server.url}/completions", model.tokenizer)
    asked = requests("loglikelihood", [pair for pair in questions() if len(pair[0]) < 1000])
    with local_lm(model) as local:
        expected = [value for value, _ in local.loglikelihood(asked)]
        text = "the night was dark " * 3
        (whole,) = local.loglikelihood_rolling(requests("loglikelihood_rolling", [(text,)]))
    assert [value for value, _ in lm.loglikelihood(asked)] == pytest.approx(expected, abs=1e-4)
    assert lm.loglikelihood_rolling(requests("loglikelihood_rolling", [(text,)])) == pytest.approx([whole], abs=1e-4)


@pytest.mark.parametrize(
    "logprobs", [None, {"token_logprobs": [-9.0], "top_logprobs": [{"e": -9.0}]}, {"token_logprobs": [None] * 99}]
)
def test_a_server_that_does_not_score_a_prompt_is_refused(model, serve, logprobs):
    """Of a prompt that is not echoed, lm-eval's sum would be 0: as likely as can be."""
    server = serve(lambda body: (200, {"choices": [{"index": 0, "text": "e", "logprobs": logprobs}]}))
    lm = Completions("model m", "m", f"{server.url}/completions", model.tokenizer)
    with pytest.raises(InputError, match="model m: the server does not score given text"):
        lm.loglikelihood(requests("loglikelihood", [("a b", "c d")]))


def test_a_server_that_knows_the_tokenizer_alone_is_sent_chats_and_scores_nothing(serve):
    def answer(body):
        assert body["messages"][0]["content"] in ("Say dark.", "Think.")
        text = "dark." if body["messages"][0]["content"] == "Say dark." else None
        return 200, {"choices": [{"index": 0, "message": {"content": text}, "finish_reason": "length"}]}

    server = serve(answer)
    lm = Chats("model m", "m", f"{server.url}/chat/completions", None)
    prompts = [lm.apply_chat_template([{"role": "user", "content": text}]) for text in ("Say dark.", "Think.")]
    asked = requests("generate_until", [(prompt, {"until": ["\n"]}) for prompt in prompts])
    assert lm.generate_until(asked) == ["dark.", ""]
    with pytest.raises(InputError, match="the task mine scores given text, which needs the model's tokenizer"):
        lm.loglikelihood(requests("loglikelihood", [("a", "b")]))


def test_a_redirect_is_refused_and_no_other_server_is_sent_the_prompt(serve):
    other = serve(lambda body: (200, {"choices": [{"index": 0, "message": {"content": "mine now"}}]}))
    server = serve(lambda body: (307, {}))
    server.location = f"{other.url}/chat/completions"
    lm = Chats("model m", "m", f"{server.url}/chat/completions", None)
    prompt = lm.apply_chat_template([{"role": "user", "content": "Say dark."}])
    with pytest.raises(InputError, match="redirects requests \\(307\\); give the address that it redirects to"):
        lm.generate_until(requests("generate_until", [(prompt, {"until": ["\n"]})]))
    assert other.bodies == []


@pytest.mark.parametrize("reply", [(500, {"error": "sk-secret-key"}), (200, {"choices": [{"message": {}}]})])
def test_replies_that_fail_stop_the_task_and_show_no_key(serve, reply, monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-key")
    server = serve(lambda body: reply)
    lm = Chats("model m", "m", f"{server.url}/chat/completions", None)
    prompt = lm.apply_chat_template([{"role": "user", "content": "a"}])
    with pytest.raises(InputError, match="the task mine cannot be run") as raised, refusing("mine"):
        lm.generate_until(requests("generate_until", [(prompt, {"until": []})]))
    assert "sk-secret-key" not in f"{caplog.text}{raised.value}"
