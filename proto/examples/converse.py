#!/usr/bin/env python3
"""Holds a conversation with a session's lead over coordd's JSON Lines. usage: converse.py SESSION WORDS"""
import json, os, socket, sys

session, words = sys.argv[1], " ".join(sys.argv[2:])
coordd = socket.socket(socket.AF_UNIX)
coordd.connect(os.environ.get("COORDD_SOCKET") or os.environ["XDG_RUNTIME_DIR"] + "/coordd/coordd.sock")
lines = coordd.makefile("rw", encoding="utf-8")

def say(message):
    lines.write(json.dumps(message) + "\n")
    lines.flush()

say({"hello": {"protocol": 1, "program": "converse.py"}})
say({"call": {"id": 1, "request": {"attach": {"session": session, "history": 0}}}})
for message in map(json.loads, lines):
    event = message.get("event", {}).get("event", {})
    what = event.get("entry", {}).get("entry", {}).get("what", {})
    if "closing" in message or "error" in message.get("reply", {}).get("outcome", {}):
        sys.exit(json.dumps(message))
    if "caught_up" in event:
        say({"call": {"id": 2, "request": {"prompt": {"session": session, "text": words}}}})
    if "text" in what:
        print(what["text"]["text"])
    if "run_ended" in what:
        sys.exit(0 if what["run_ended"]["status"] == "completed" else 1)
sys.exit("coordd ended the connection")
