# Settings of the Slurm bed, and what all its scripts share. Sourced, never run.
#
# Every setting comes from the environment, so that a second bed needs only another
# TIDEGATE_SLURM_BED, BASE and CLUSTER. A running bed remembers the settings it was started with:
# stop.sh, daemon.sh and token.sh need only TIDEGATE_SLURM_BED.

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
BED=${TIDEGATE_SLURM_BED:-${BED:-${TMPDIR:-/tmp}/tidegate-slurm-bed}}
BED=${BED%/}

complain() { printf 'Slurm bed: %s\n' "$*" >&2; exit 1; }
say() { printf 'Slurm bed: %s\n' "$*"; }

[[ $BED =~ ^/[A-Za-z0-9._/-]{1,70}$ ]] ||
  complain "the folder '$BED' must be an absolute path of at most 70 letters, digits, dots, dashes" \
    "and underscores (sockets have short names); set TIDEGATE_SLURM_BED to another one."

REMEMBERED="BASE CLUSTER H100_NODES A100_NODES CPU_NODES SLICED_NODES NODE_CPUS NODE_MEMORY_MB \
MIN_JOB_AGE KILL_WAIT_S NODE_TIMEOUT_S CREDENTIAL_S SERVICE_LEVEL NAMES API_VERSION"
if [ "${KEEP_SETTINGS:-yes}" = yes ] && [ -r "$BED/settings" ]; then . "$BED/settings"; fi

BASE=${BASE:-17000}                       # first of the 1000 ports that the bed may use
CLUSTER=${CLUSTER:-tidegate}
H100_NODES=${H100_NODES:-64}
A100_NODES=${A100_NODES:-16}
CPU_NODES=${CPU_NODES:-2}                  # without GPUs, in a partition of their own
SLICED_NODES=${SLICED_NODES:-0}           # with whole GPUs and MIG slices, in a partition of their own
NODE_CPUS=${NODE_CPUS:-128}               # what a node claims; the machine need not have it
NODE_MEMORY_MB=${NODE_MEMORY_MB:-2000000}
MIN_JOB_AGE=${MIN_JOB_AGE:-300}           # seconds an ended job stays in the controller's list
KILL_WAIT_S=${KILL_WAIT_S:-5}             # TERM to KILL
NODE_TIMEOUT_S=${NODE_TIMEOUT_S:-60}      # a silent slurmd makes its node DOWN after this
CREDENTIAL_S=${CREDENTIAL_S:-15}          # a requeued job waits this long
SERVICE_LEVEL=${SERVICE_LEVEL:-Administrator}
API_VERSION=${API_VERSION:-}              # the only one that slurmrestd offers; empty: all it has
NAMES=${NAMES:-}                          # private | shared; empty: private where the kernel lets us

GPUS_PER_NODE=8
SLICED_GPUS="a30:2 1g.6gb:4"              # TYPE:COUNT of each, GPUS_PER_NODE in all at most
SERVICE_USER=tidegate
REST_USER=tg-slurmrestd
USERS="tg-ana tg-leo tg-vera tg-ivan tg-sam tg-mia tg-noah tg-eva"
USER_MARK="Tidegate Slurm bed"

whole() { [[ ${!1} =~ ^[0-9]{1,9}$ ]] && ((10#${!1} >= $2 && 10#${!1} <= $3)) ||
  complain "$1 is '${!1}' and must be a whole number from $2 to $3."; }
whole BASE 1024 64000; whole H100_NODES 1 200; whole A100_NODES 1 90
whole CPU_NODES 1 90; whole SLICED_NODES 0 9
whole NODE_CPUS 8 1024; whole NODE_MEMORY_MB 1000 100000000; whole MIN_JOB_AGE 2 86400
whole KILL_WAIT_S 1 600; whole NODE_TIMEOUT_S 5 3600; whole CREDENTIAL_S 5 600
[[ $CLUSTER =~ ^[a-z][a-z0-9]{0,30}$ ]] ||
  complain "CLUSTER is '$CLUSTER' and must be small letters and digits, a letter first."
[[ $SERVICE_LEVEL =~ ^(None|Operator|Administrator)$ ]] ||
  complain "SERVICE_LEVEL is '$SERVICE_LEVEL' and must be None, Operator or Administrator."
[[ $API_VERSION =~ ^(v0\.0\.[0-9]{2}|)$ ]] ||
  complain "API_VERSION is '$API_VERSION' and must be such as v0.0.40."
[[ $NAMES =~ ^(private|shared|)$ ]] || complain "NAMES is '$NAMES' and must be private or shared."

PORT_SQL=$BASE; PORT_CTLD=$((BASE + 1)); PORT_DBD=$((BASE + 2)); PORT_REST=$((BASE + 3))
PORT_NODE=$((BASE + 10)); PORT_SRUN=$((BASE + 400)); PORT_LAST=$((BASE + 999))
NODE_COUNT=$((H100_NODES + A100_NODES + CPU_NODES + SLICED_NODES))

export SLURM_CONF=$BED/etc/slurm.conf
export PATH=$PATH:/usr/sbin:/sbin

node_names() {
  local i
  for ((i = 1; i <= H100_NODES; i++)); do printf 'h%03d\n' "$i"; done
  for ((i = 1; i <= A100_NODES; i++)); do printf 'a%02d\n' "$i"; done
  for ((i = 1; i <= CPU_NODES; i++)); do printf 'c%02d\n' "$i"; done
  for ((i = 1; i <= SLICED_NODES; i++)); do printf 's%d\n' "$i"; done
}

is_node() { [[ " $(node_names | tr '\n' ' ')" == *" $1 "* ]]; }

must_be_root() {
  [ "$(id -u)" -eq 0 ] || complain "must run as root: Slurm starts jobs as their users." \
    "Run it again as root (sudo)."
}

# One script at a time changes a bed. A purge removes the lock's file, so look again after waiting.
take_lock() {
  local tries
  for tries in 1 2 3 4 5; do
    exec 9>>"$BED/lock" || complain "cannot write $BED/lock."
    flock --wait 300 9 || complain "another script has been busy with $BED for 300 s; look at it first."
    [ "$BED/lock" -ef /dev/fd/9 ] && return 0
    mkdir -p "$BED"
  done
  complain "$BED is removed again and again by somebody else."
}

# within SECONDS COMMAND...: repeat the command until it succeeds; false when the time is over.
within() {
  local end=$((SECONDS + $1)); shift
  until "$@"; do
    ((SECONDS < end)) || return 1
    sleep 0.1
  done
}
