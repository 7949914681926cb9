"""lm-eval's models as a run asks them: its networks, chats and servers."""

from __future__ import annotations

import contextlib
import json
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
from instruct.measuring.options import TaskOptions
from instruct.measuring.tasks import AskedSystems, refusing, render_chat

pytest.importorskip("lm_eval")

from lm_eval.api.instance import Instance

from instruct.measuring.lm import Chats, Completions, in_transformers


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


def requests(kind: str, *arguments: tuple) -> list[Instance]:
    return [Instance(kind, {}, one, 0, metadata=("mine", place, 1)) for place, one in enumerate(arguments)]


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
    prompts, decode = ["the night was", "it"], model.tokenizer.decode
    asked = requests("generate_until", *((prompt, {"until": ["zzz"], "max_gen_toks": 6}) for prompt in prompts))
    with model.engine.adapted(None) as network:
        ids = model.tokenizer(prompts[0], return_tensors="pt")["input_ids"]
        said = network.generate(ids, max_new_tokens=6, do_sample=False)[0, ids.shape[1] :].tolist()
        monkeypatch.setattr(model.engine, "stops", [said[2]])
    with local_lm(model) as lm:
        whole, other = lm.generate_until(asked)
    end = said.index(said[2])
    assert whole in (decode(said[:end]), decode(said[: end + 1]))
    assert other


def test_chats_are_written_as_lm_eval_writes_them(model):
    chat = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    with local_lm(model) as lm:
        for messages, asks in [(chat, True), ([*chat, {"role": "assistant", "content": "Answer:"}], False)]:
            assert render_chat(model.tokenizer, Rendering(), messages, asks) == lm.apply_chat_template(messages, asks)


def test_other_weights_than_those_that_were_trained_are_refused(tiny_model, make_adapter, tmp_path):
    base, folder, ids = ModelOptions(name=str(tiny_model), dtype="float32"), tmp_path / "emo", [5, 6, 7, 8, 9]
    make_adapter(str(tiny_model), folder, 1, 0.5)
    own, of_base = (
        open_model(base, source).log_probabilities([TextRow(ids, 1)])[0].tolist() for source in (folder, None)
    )
    Canary(ids, [1, 2, 3, 4], own, of_base).save(folder)
    with contextlib.closing(AskedSystems(TaskOptions(), base, {"emo": folder})) as models:
        with models.asked("emo"):
            pass
        Canary(ids, [1, 2, 3, 4], [value - 2 for value in own], of_base).save(folder)
        refusal = pytest.raises(InputError, match="system emo does not answer with the trained weights")
        with refusal, models.asked("emo"):
            pass


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        status, reply = self.server.answer(body)
        data = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def serve(monkeypatch):
    """A server that answers as `answer` says, a function from a request's body to a status and an object; lm-eval's
    two models of it, with a tokenizer or without. lm-eval does not wait before it asks again."""
    monkeypatch.setattr("lm_eval.models.api_models.wait_exponential", lambda **_: lambda state: 0)
    servers = []

    def started(answer, tokenizer=None):
        servers.append(server := ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        server.answer, url = answer, f"http://127.0.0.1:{server.server_port}/v1"
        Thread(target=server.serve_forever, daemon=True).start()
        server.chats = Chats("model m", "m", f"{url}/chat/completions", None)
        server.completions = Completions("model m", "m", f"{url}/completions", tokenizer)
        return server

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

    lm = serve(answer, model.tokenizer).completions
    begins = ["the night was", "the night was dark and", "it"]
    pairs = [(begin, choice) for begin in begins for choice in (" fine", " dark and wet", " a")]
    choices = requests("loglikelihood", *pairs, ("", "rain"), ("", "dark"), ("dark ", "night"))
    whole = requests("loglikelihood_rolling", ("the night was dark " * 3,))
    with local_lm(model) as local:
        expected = [value for value, _ in local.loglikelihood(choices)]
        assert [value for value, _ in lm.loglikelihood(choices)] == pytest.approx(expected, abs=1e-4)
        assert lm.loglikelihood_rolling(whole) == pytest.approx(local.loglikelihood_rolling(whole), abs=1e-4)


def test_a_server_that_does_not_score_a_prompt_is_refused(model, serve):
    """Of a prompt that is not echoed, lm-eval's sum would be 0: as likely as can be."""
    logprobs = {"token_logprobs": [-9.0], "top_logprobs": [{"e": -9.0}]}
    server = serve(lambda body: (200, {"choices": [{"index": 0, "text": "e", "logprobs": logprobs}]}), model.tokenizer)
    with pytest.raises(InputError, match="model m: the server does not score given text"):
        server.completions.loglikelihood(requests("loglikelihood", ("a b", "c d")))


def test_replies_that_fail_stop_the_task_and_show_no_key(serve, monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-key")
    chats = serve(lambda body: (500, {"error": "sk-secret-key"})).chats
    asked = requests("generate_until", (chats.apply_chat_template([{"role": "user", "content": "a"}]), {"until": []}))
    with pytest.raises(InputError, match="the task mine cannot be run") as raised, refusing("mine"):
        chats.generate_until(asked)
    assert "sk-secret-key" not in f"{caplog.text}{raised.value}"
