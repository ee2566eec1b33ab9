#!/usr/bin/env bash
# daemon.sh VERB NAME...: takes single daemons down and up, for tests of what happens then.
#   VERB: stop | start | restart | kill9 | freeze | thaw | state
#         crash (nodes only): the whole machine is gone, jobs included
#   NAME: rest | ctld | dbd | sql | a node such as h001
set -euo pipefail
umask 022
KEEP_SETTINGS=yes
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
. "$HERE/daemons.sh"
must_be_root
usage="usage: daemon.sh stop|start|restart|kill9|freeze|thaw|state|crash rest|ctld|dbd|sql|NODE..."
[ $# -ge 2 ] || complain "$usage"
[ -s "$BED/settings" ] || complain "no bed was started under $BED: run start.sh first."
verb=$1; shift

for name in "$@"; do
  case $name in
    rest | ctld | dbd | sql) ;;
    *) is_node "$name" || complain "there is no daemon '$name'; $usage" ;;
  esac
done

must_run() { pid_of "$1" || complain "$1 is not running: nothing to $verb."; }

kill_daemon() {
  local pid
  pid=$(must_run "$1") || exit 1
  kill -KILL "$pid"
  within 10 gone "$pid" || complain "process $pid does not end when killed."
}

# start.sh holds the lock while it starts the nodes by this script.
if [ "$verb" = start-nodes ]; then
  for name in "$@"; do start_daemon "$name"; done
  exit 0
fi
take_lock
for name in "$@"; do
  case $verb in
    stop) end_daemon "$name" ;;
    start) start_daemon "$name" ;;
    restart) end_daemon "$name"; start_daemon "$name" ;;
    kill9) kill_daemon "$name" ;;
    freeze) pid=$(must_run "$name") || exit 1; kill -STOP "$pid" ;;
    thaw) pid=$(must_run "$name") || exit 1; kill -CONT "$pid" ;;
    crash)
      is_node "$name" || complain "only nodes crash, not $name: use kill9."
      crash_node "$name"
      ;;
    state) runs "$name" && echo "$name runs" || echo "$name is down" ;;
    *) complain "$usage" ;;
  esac
done
[ ! -e "$BED/bed.json" ] || [ "$verb" = state ] || write_bed_json
