#!/bin/sh
# Holds a conversation with a session's lead over coordd's JSON Lines. usage: converse.sh SESSION WORDS
# Needs nc (netcat-openbsd) and jq.
set -eu
session=$1; shift
pipes=$(mktemp -d); trap 'rm -rf "$pipes"' EXIT
mkfifo "$pipes/to" "$pipes/from"
nc -U "${COORDD_SOCKET:-$XDG_RUNTIME_DIR/coordd/coordd.sock}" <"$pipes/to" >"$pipes/from" &
exec 3>"$pipes/to" 4<"$pipes/from"
printf '%s\n' '{"hello":{"protocol":1,"program":"converse.sh"}}' >&3
jq -cn --arg s "$session" '{call: {id: 1, request: {attach: {session: $s, history: 0}}}}' >&3
while read -r line <&4; do
    kind=$(printf '%s\n' "$line" | jq -r '(.event.event // {}) as $event | ($event.entry.entry.what // {}) as $what
        | if has("closing") or .reply.outcome.error then "error" elif $event.caught_up then "ready"
          elif $what.text then "text" elif $what.run_ended then $what.run_ended.status else "" end')
    case $kind in
    error) printf '%s\n' "$line" >&2; exit 1 ;;
    ready) jq -cn --arg s "$session" --arg t "$*" '{call: {id: 2, request: {prompt: {session: $s, text: $t}}}}' >&3 ;;
    text) printf '%s\n' "$line" | jq -r .event.event.entry.entry.what.text.text ;;
    completed) exit 0 ;;
    failed | killed) exit 1 ;;
    esac
done
exit 1
