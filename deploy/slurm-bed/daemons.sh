# Starting, ending and watching the bed's daemons. Sourced after settings.sh.
#
# A daemon's short name is rest, ctld, dbd, sql, munge or the name of a node. A process counts as
# ours only if its id is in our file, its program is the expected one and its environment names
# this bed, so that a number used again by somebody else is never signalled.

pid_file() {
  case $1 in
    rest) echo "$BED/run/slurmrestd.pid" ;;
    ctld) echo "$BED/run/slurmctld.pid" ;;
    dbd) echo "$BED/run/slurmdbd.pid" ;;
    sql) echo "$BED/run/mariadbd.pid" ;;
    munge) echo "$BED/run/munged.pid" ;;
    minter) echo "$BED/run/minter.pid" ;; # join.py starts it
    *) echo "$BED/run/slurmd-$1.pid" ;;
  esac
}

program() {
  case $1 in
    rest) echo slurmrestd ;; ctld) echo slurmctld ;; dbd) echo slurmdbd ;; sql) echo mariadbd ;;
    munge) echo munged ;; minter) echo python ;; *) echo slurmd ;;
  esac
}

log_of() {
  case $1 in
    rest | ctld | dbd | sql | munge) echo "$BED/log/$(program "$1").log" ;;
    *) echo "$BED/log/slurmd-$1.log" ;;
  esac
}

has_mark() { grep -qzxF "TIDEGATE_BED_OF=$BED" "/proc/$1/environ" 2>/dev/null; }

# Prints the id of the running daemon, or fails.
pid_of() {
  local pid name
  read -r pid 2>/dev/null <"$(pid_file "$1")" || return 1
  [[ $pid =~ ^[0-9]+$ ]] || return 1
  read -r name 2>/dev/null <"/proc/$pid/comm" || return 1
  [ "$name" = "$(program "$1")" ] && has_mark "$pid" && echo "$pid"
}

runs() { pid_of "$1" >/dev/null; }

# Becomes true when the port is listened on or the process has ended; then `listens` tells which.
settled() { listens "$2" || ! runs "$1"; }

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

show_log() {
  printf -- '--- the end of %s\n' "$1" >&2
  tail -n 15 "$1" >&2 2>/dev/null
  complain "$2"
}

# in_place NAME COMMAND...: run the command as the machine NAME: with that host name, and with a
# private view of /etc/hosts in which every node's name is this machine. So `hostname` in a job
# is its node, and the ranks of a job find each other by the names that Slurm gives them.
in_place() {
  local name=$1; shift
  if [ "$NAMES" = private ]; then
    unshare --uts --mount --propagation slave bash -c '
      set -e
      mount --bind "$1" /etc/hosts
      echo "$2" >/proc/sys/kernel/hostname
      shift 2
      exec "$@"' in_place "$BED/etc/hosts" "$name" "$@"
  else
    "$@"
  fi
}

# The environment of every daemon: the mark, and nothing of the caller's.
CLEAN=(env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C "TIDEGATE_BED_OF=$BED" "SLURM_CONF=$SLURM_CONF")

start_munge() {
  "${CLEAN[@]}" munged --force --key-file="$BED/munge/key" --socket="$BED/munge/socket" \
    --pid-file="$(pid_file munge)" --log-file="$(log_of munge)" --seed-file="$BED/munge/seed" \
    --num-threads=4 9>&- >>"$BED/log/start.log" 2>&1 </dev/null || true
  within 20 runs munge || show_log "$BED/log/start.log" "munged did not start."
}

start_sql() {
  "${CLEAN[@]}" setsid mariadbd --no-defaults --user=mysql --datadir="$BED/db" --socket="$BED/db/socket" \
    --pid-file="$BED/db/mariadbd.pid" --port="$PORT_SQL" --bind-address=127.0.0.1 \
    --skip-name-resolve --innodb-buffer-pool-size=128M --innodb-lock-wait-timeout=900 \
    --innodb-flush-log-at-trx-commit=2 --max-allowed-packet=64M \
    9>&- >>"$(log_of sql)" 2>&1 </dev/null &
  echo $! >"$(pid_file sql)"
  disown
  within 5 runs sql && within 60 settled sql "$PORT_SQL" && listens "$PORT_SQL" ||
    show_log "$(log_of sql)" "MariaDB did not listen within 60 s, or ended."
}

start_dbd() {
  in_place ctl "${CLEAN[@]}" slurmdbd 9>&- >>"$BED/log/start.log" 2>&1 </dev/null || true
  within 60 listens "$PORT_DBD" || show_log "$(log_of dbd)" "slurmdbd did not listen within 60 s."
  within 20 runs dbd || show_log "$(log_of dbd)" "slurmdbd ended again."
}

start_ctld() {
  in_place ctl "${CLEAN[@]}" slurmctld -i 9>&- >>"$BED/log/start.log" 2>&1 </dev/null || true
  within 60 listens "$PORT_CTLD" || show_log "$(log_of ctld)" "slurmctld did not listen within 60 s."
  within 20 runs ctld || show_log "$(log_of ctld)" "slurmctld ended again."
}

# slurmrestd refuses to run as root or as Slurm's user, and needs no key: it passes tokens on.
start_rest() {
  (
    cd "$BED/work"
    exec "${CLEAN[@]}" SLURM_JWT=daemon SLURMRESTD_JSON=compact setsid \
      setpriv --reuid="$REST_USER" --regid="$REST_USER" --clear-groups \
      slurmrestd -f "$SLURM_CONF" -a rest_auth/jwt ${API_VERSION:+-d "$API_VERSION"} -t 8 \
      "127.0.0.1:$PORT_REST" \
      9>&- >>"$(log_of rest)" 2>&1 </dev/null
  ) &
  echo $! >"$(pid_file rest)"
  disown
  within 5 runs rest && within 30 settled rest "$PORT_REST" && listens "$PORT_REST" ||
    show_log "$(log_of rest)" "slurmrestd did not listen within 30 s, or ended."
}

start_node() {
  mkdir -p "$BED/spool/$1"
  in_place "$1" "${CLEAN[@]}" slurmd -N "$1" 9>&- >>"$BED/log/start.log" 2>&1 </dev/null || true
  within 30 runs "$1" || show_log "$(log_of "$1")" "the slurmd of $1 did not start."
}

# A daemon that a test froze and left so goes on.
start_daemon() {
  local pid
  if pid=$(pid_of "$1"); then
    kill -CONT "$pid"
    return 0
  fi
  case $1 in
    munge | sql | dbd | ctld | rest) "start_$1" ;;
    *) start_node "$1" ;;
  esac
}

# A stopped (frozen) process sees TERM only once it goes on.
end_daemon() {
  local pid
  pid=$(pid_of "$1") || { rm -f "$(pid_file "$1")"; return 0; }
  kill -TERM "$pid" 2>/dev/null || true
  kill -CONT "$pid" 2>/dev/null || true
  if ! within "${2:-20}" gone "$pid"; then
    say "the $(program "$1") of $1 did not end by itself: killed."
    kill -KILL "$pid" 2>/dev/null || true
    within 10 gone "$pid" || complain "process $pid does not even end when killed."
  fi
  rm -f "$(pid_file "$1")"
}

gone() { ! kill -0 "$1" 2>/dev/null || grep -q '^State:\s*Z' "/proc/$1/status" 2>/dev/null; }

# Prints the host-name namespaces of the nodes that run: whatever lives there belongs to the bed.
namespaces() {
  local name pid
  [ "$NAMES" = private ] || return 0
  for name in "$@"; do
    pid=$(pid_of "$name") && readlink "/proc/$pid/ns/uts" || true
  done
}

# Prints the processes that live in the given namespaces.
inhabitants() {
  find /proc -mindepth 3 -maxdepth 3 -path '/proc/[0-9]*/ns/uts' -printf '%p %l\n' 2>/dev/null |
    awk -v homes="$*" 'BEGIN {n = split(homes, list, " "); for (i = 1; i <= n; i++) home[list[i]]}
      $2 in home {split($1, part, "/"); print part[3]}' || true
}

# What outlives a slurmd: whatever lives in the given namespaces, the step daemons of this bed's
# jobs, and processes of the bed's users that a job left behind (they name our slurm.conf).
leftovers() {
  local pid user name
  [ -z "$*" ] || inhabitants "$@"
  while read -r pid user name; do
    case " $USERS $SERVICE_USER slurmstepd " in
      *" $user "* | *" $name "*) if has_mark "$pid" || of_this_conf "$pid"; then echo "$pid"; fi ;;
    esac
  done < <(ps -e -o pid= -o user:32= -o comm=)
}

of_this_conf() { grep -qzxF "SLURM_CONF=$SLURM_CONF" "/proc/$1/environ" 2>/dev/null; }

end_leftovers() {
  local pids
  pids=$(leftovers "$@")
  [ -z "$pids" ] || kill -KILL $pids 2>/dev/null || true
}

# The node's machine is gone at once: its slurmd and all that runs on it.
crash_node() {
  local pid home
  pid=$(pid_of "$1") || complain "$1 is not running: nothing to crash."
  home=$(namespaces "$1")
  [ -n "$home" ] || complain "nodes without names of their own cannot crash apart: NAMES is shared."
  kill -KILL "$pid"
  kill -KILL $(inhabitants "$home") 2>/dev/null || true
  within 10 gone "$pid" || complain "process $pid does not end when killed."
}

# Writes bed.json: what a client or a test must know. Every word in it was checked to need no
# quoting.
write_bed_json() {
  local name pid user pids="" ids=""
  for name in munge sql dbd ctld rest $(node_names); do
    pid=$(pid_of "$name") || continue
    pids+="${pids:+, }\"$name\": $pid"
  done
  for user in $USERS; do ids+="${ids:+, }\"$user\": $(id -u "$user")"; done
  cat >"$BED/bed.json.new" <<JSON
{
  "bed": "$BED",
  "cluster": "$CLUSTER",
  "url": "http://127.0.0.1:$PORT_REST",
  "jwt_key_file": "$BED/etc/jwt_hs256.key",
  "service_user": "$SERVICE_USER",
  "service_level": "$SERVICE_LEVEL",
  "users": [$(printf '"%s", ' $USERS | sed 's/, $//')],
  "user_ids": {$ids},
  "partitions": {
    "h100": {"gres_type": "h100", "nodes": $H100_NODES, "gpus_per_node": $GPUS_PER_NODE, "first_node": "h001"},
    "a100": {"gres_type": "a100", "nodes": $A100_NODES, "gpus_per_node": $GPUS_PER_NODE, "first_node": "a01"}
  },
  "cores": {"partition": "cpu", "nodes": $CPU_NODES, "cores_per_node": $NODE_CPUS, "first_node": "c01"},
  "gres_types": ["h100", "a100"],
  "output_root": "$BED/outputs/{user}",
  "working_directory": "$BED/home/{user}",
  "min_job_age_s": $MIN_JOB_AGE,
  "kill_wait_s": $KILL_WAIT_S,
  "node_timeout_s": $NODE_TIMEOUT_S,
  "private_names": $([ "$NAMES" = private ] && echo true || echo false),
  "api_version": "$API_VERSION",
  "slurm_conf": "$SLURM_CONF",
  "logs": "$BED/log",
  "ports": {"sql": $PORT_SQL, "ctld": $PORT_CTLD, "dbd": $PORT_DBD, "rest": $PORT_REST, "first_node": $PORT_NODE},
  "pids": {$pids},
  "token_command": ["$HERE/token.sh"],
  "daemon_command": ["$HERE/daemon.sh"]
}
JSON
  mv "$BED/bed.json.new" "$BED/bed.json"
}
