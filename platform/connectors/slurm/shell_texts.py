"""Bash texts of the batch script; `connectors.slurm.batch` fills in the values between `@`."""

from __future__ import annotations

#: Waits for a process and sets `status` to how it ended. `wait` also returns when a trap ran and
#: when the process was suspended, not only at its end. And where a trap ran at that very moment,
#: bash drops what the kernel tells it (`CHECK_WAIT_INTR` in its jobs.c): it takes the process for
#: running, and would wait for it for ever. Then `status` is empty: nobody knows.
#: In backquotes, since `$(...)` is parsed again whenever it is expanded: a trap that runs in that
#: moment confuses the parser (bash 5.2), and the shell ends with a syntax error.
AWAIT = r"""
await() {
  local one
  while :; do
    wait "$1"
    kill -0 "$1" || break
    [ -z "`jobs -sp`" ] || sleep 1
  done
  status=
  for one in `jobs -rp`; do
    [ "$one" != "$1" ] || return
  done
  # It says the same as often as it is asked, but for a trap that runs just now.
  until wait "$1"; [ "$?" = "$status" ]; do
    wait "$1"
    status=$?
  done
}
"""

RANK = r"""
key=$1 directory=$2 settings_bytes=$3 script_bytes=$4 tag=$5
gpus=$6 ranks=$7 master_address=$8 master_port=$9 work=
rank=$SLURM_PROCID
name=$directory/$key.$rank
ulimit -c 0
set -C

tell() { printf '%s %s %s\n' "$1" "$rank" "${2-}"; }
# A program that is started costs a node more than all that the shell does by itself, so none is
# where it can be done without.
clear() {
  local file
  for file; do
    if [ -e "$file" ] || [ -L "$file" ]; then
      rm -f -- "$@"
      return
    fi
  done
}
# Bytes, not characters; nothing that is sent has a NUL among them.
take() {
  local LC_ALL=C
  IFS= read -r -N "$1" taken && [ "${#taken}" -eq "$1" ]
}
leave() {
  clear "$name.exit"
  printf '%s\n' "$1" > "$name.exit"
}
refuse() {
  leave "not started: $1"
  tell refused
  [ -z "$work" ] || rm -rf -- "$work"
  exit 0
}

# What the job's author is told in the log, as under any shell: it is no fault of the node.
complain() {
  printf 'tidegate: cannot use %s on node %s: %s%s\n' "$1" "$SLURMD_NODENAME" "${2##*: }" \
    "${3-}" >> "$name.stderr"
}
deny() {
  complain "$@"
  rm -rf -- "$work"
  leave 1
  tell exit 1
  exit 0
}
# The author's own files. The job writes to them, and `tail` copies to the logs what is added.
declare -A followed from begun follower
prepare() {
  case $1 in */*) [ -d "${1%/*}/" ] || mkdir -p -- "${1%/*}" || return ;; esac
  [ ! -p "$1" ] || { echo 'it is a pipe'; return 1; }
  if [ -n "$appends" ]; then : >> "$1"; else : >| "$1"; fi
}
# Sets `opened` to a descriptor of file $1, or of the log $2 where there is no such file.
open_stream() {
  local why
  if [ -n "$1" ] && ! why=$(prepare "$1" 2>&1); then
    complain "$1" "$why" '; the output is in the log alone'
    [ "$error_file" != "$1" ] || error_file=
    set -- '' "$2"
  fi
  if [ -z "$1" ]; then
    exec {opened}>> "$2"
    return
  fi
  exec {opened}>> "$1"
  [ -f "$1" ] || return
  followed[$2]=$1 from[$2]=0
  [ -z "$appends" ] || from[$2]=$(wc -c < "$1")
}
follow() {
  local log
  for log in "${!followed[@]}"; do
    # What the shell itself told its author there.
    begun[$log]=$(wc -c < "$log")
    tail -c "+$((${from[$log]} + 1))" -f -- "${followed[$log]}" < /dev/null >> "$log" &
    follower[$log]=$!
  done
}
# Ends the copying, and copies what is missing.
catch_up() {
  local log copied
  for log in "${!followed[@]}"; do
    if [ -n "${follower[$log]-}" ]; then
      kill -s KILL -- "-${follower[$log]}"
      wait "${follower[$log]}"
      follower[$log]=
    fi
    copied=$(($(wc -c < "$log") - ${begun[$log]}))
    tail -c "+$((${from[$log]} + copied + 1))" -- "${followed[$log]}" >> "$log"
  done
}

# Notes how large the logs are and when, in lines of 27 characters. A look after a note makes sure
# that nothing was added between size and time.
declare -A noted again
notes_left=200000
note() {
  local log size
  for log in "$name.stdout" "$name.stderr"; do
    [ -s "$log" ] && [ "$notes_left" -gt 0 ] || continue
    [ -n "${again[$log]-}" ] || ! [ "$log.times" -nt "$log" ] || continue
    size=$(wc -c < "$log") && size=$((size)) || continue
    again[$log]=
    [ "$size" -gt "${noted[$log]:-0}" ] || continue
    printf '%015d %(%s)T\n' "$size" -1 >> "$log.times"
    noted[$log]=$size again[$log]=1 notes_left=$((notes_left - 1))
  done
}

declare -A family heard steps
pid= asked= noticed= noticed_cs= due= aborted= stopped= expired= killer=
# Hundredths of a second that only grow.
now() {
  read -r now_cs _ < /proc/uptime
  now_cs=$((10#${now_cs/./}))
}
# Sets `members` to the processes of the script, parents first, and `family` to when each started.
# They are the script's own, what is below it or in its group, and what was there at the notice.
# Tasks of a step are not among them, only their srun.
look() {
  local file line name one
  local -a fields
  local -A below started
  local -a todo=()
  family=() members=() steps=()
  for file in /proc/[0-9]*/stat; do
    line=
    IFS= read -r -d '' line < "$file"
    [ -n "$line" ] || continue
    one=${line%% *} name=${line#*(}
    name=${name%)*}
    fields=(${line##*) })
    [[ ${fields[0]} != [ZX] ]] || continue
    below[${fields[1]}]+=" $one"
    started[$one]=${fields[19]}
    [ "$one" != "$pid" ] || program=$name
    [ "$name" != srun ] || steps[$one]=1
    if [ "$one" = "$pid" ] || [ "${fields[2]}" = "$pid" ] ||
      [ "${heard[$one]-}" = "${fields[19]}" ]; then
      todo+=("$one")
    fi
  done
  while [ "${#todo[@]}" -gt 0 ]; do
    one=${todo[0]}
    todo=("${todo[@]:1}")
    [ -z "${family[$one]-}" ] || continue
    family[$one]=${started[$one]}
    members+=("$one")
    todo+=(${below[$one]-})
  done
}
# A shell that runs the script and does not handle the notice would die of it, and its program lose
# the rest of the script.
may_hear() {
  local field value
  case $program in
    ash | bash | busybox | csh | dash | fish | ksh | mksh | rbash | sh | tcsh | zsh) ;;
    *) return 0 ;;
  esac
  while read -r field value; do
    [ "$field" != SigCgt: ] || return $((~(16#$value >> (notice_number - 1)) & 1))
  done < "/proc/$pid/status"
  return 1
}
# The tasks of steps hear it from their node, as with Slurm's own notices. An srun would not pass it
# on: at TERM it kills its step.
notify_steps() {
  local _
  for _ in {1..10}; do
    scancel --signal="$notice_signal" "$SLURM_JOB_ID" && break
    sleep 1
  done
}
notice() {
  local one has_steps=
  asked=1
  { [ -n "$noticed" ] || [ -z "$pid" ]; } && return
  noticed=1
  tell noticed
  now
  noticed_cs=$now_cs
  look
  for one in "${members[@]}"; do
    heard[$one]=${family[$one]}
    if [ "$one" = "$pid" ]; then
      [ -n "$shell_only" ] || may_hear || continue
    elif [ -n "$shell_only" ]; then
      continue
    elif [ -n "${steps[$one]-}" ]; then
      has_steps=1
      continue
    fi
    kill -s "$notice_signal" "$one"
  done
  [ -z "$has_steps" ] || notify_steps < /dev/null > /dev/null &
}
# The limit's notice. What ends after it was ended by the limit.
expect() { [ -n "$noticed" ] || due=1; notice; }
abort() {
  aborted=1
  [ -n "$pid" ] || return
  kill -s TERM -- "-$pid"
  ( sleep "$ending_s"; kill -s KILL -- "-$pid" ) &
  killer=$!
}
finish() { [ -z "$pid" ] || kill -s KILL -- "-$pid"; }
trap notice URG
trap expect VTALRM
trap abort XCPU
trap 'stopped=1; finish' ABRT
trap 'expired=1; tell limit; finish' ALRM
trap 'noticed=1; tell noticed; now; noticed_cs=${noticed_cs:-$now_cs}' TERM
trap : HUP INT QUIT USR1 USR2

# The node's directory for temporary files need not be there in a container.
work=${TMPDIR:-/tmp}/tidegate.$SLURM_JOB_ID.$rank.$RANDOM$RANDOM$RANDOM
mkdir -m 700 -- "$work" 2> /dev/null ||
  { work=$directory/.${work##*/} && mkdir -m 700 -- "$work"; } ||
  { work= && refuse "no directory for the script on node $SLURMD_NODENAME"; }
take "$settings_bytes" && eval "$taken" && take "$script_bytes" &&
  printf %s "$taken" > "$work/script" ||
  refuse "the script did not reach node $SLURMD_NODENAME"
taken=
{ [ -x "${command[0]}" ] && ! [ -d "${command[0]}" ]; } ||
  refuse "${command[0]} is no program on node $SLURMD_NODENAME"
clear "$name.exit" "$name.stdout" "$name.stderr" "$name.stdout.times" "$name.stderr.times"
{ : > "$name.stdout" && : > "$name.stderr"; } ||
  refuse "no output can be written to $directory on node $SLURMD_NODENAME"

if [ -n "$folder" ]; then
  case $folder in
    /*) [ -d "$folder" ] || deny "$folder" 'there is no such folder' ;;
    *) why=$(mkdir -p -- "$folder" 2>&1) || deny "$folder" "$why" ;;
  esac
  cd -- "$folder" 2> /dev/null || deny "$folder" 'it cannot be entered'
fi
open_stream "$output_file" "$name.stdout"
out=$opened
if [ -n "$output_file" ] && [ "$error_file" = "$output_file" ]; then
  err=$out
else
  open_stream "$error_file" "$name.stderr"
  err=$opened
fi

# With job control the script leads a process group of its own, and no signal is ignored there.
set -m
slots=${SLURM_STEP_GPUS:-${SLURM_JOB_GPUS:-}}
path=$PATH
for variable in "${variables[@]}"; do
  [[ $variable != PATH=* ]] || path=${variable#PATH=}
done
# The ranks are a step that fills the job: one that a script starts would wait for their end.
if [ "$ranks" -gt 1 ]; then
  mkdir "$work/bin" && printf '%s\n' '#!/bin/sh' \
    "echo 'srun: Tidegate has started this script once on each of the $ranks nodes already; start' \
      'the program without srun. RANK, WORLD_SIZE and MASTER_ADDR say which part it is.' >&2" \
    'exit 1' > "$work/bin/srun" && chmod 755 "$work/bin/srun" && path=$work/bin:$path
fi
rendezvous=(CUDA_DEVICE_ORDER=PCI_BUS_ID LOCAL_RANK=0 MASTER_ADDR="$master_address" \
  MASTER_PORT="$master_port" NNODES="$ranks" NODE_RANK="$rank" RANK="$rank" WORLD_SIZE="$ranks")
[ -z "$is_batch" ] || rendezvous=()
variables+=(PATH="$path" "${rendezvous[@]}" TIDEGATE_GPUS_PER_NODE="$gpus" \
  TIDEGATE_GPU_SLOTS="$slots" TIDEGATE_NODE="$SLURMD_NODENAME" TIDEGATE_TRACE="$tag")
set -- "${command[@]}" "$work/script" "${arguments[@]}"
# Everybody on the node can read command lines, so no variable stands on one.
( exec {out}>&- {err}>&-; export "${variables[@]}"; exec "$@" ) < /dev/null >&"$out" 2>&"$err" &
pid=$!
exec {out}>&- {err}>&-
# From here on the shell has nothing to say but how its helpers were ended.
exec 2> /dev/null
follow
[ -z "$asked" ] || notice
[ -z "$aborted" ] || abort
[ -z "$stopped" ] || finish

( while read -r word; do
    case $word in
      notice) kill -s URG "$$" ;;
      abort) kill -s XCPU "$$" ;;
      stop) kill -s ABRT "$$" ;;
      limit\ *) printf '%s\n' "${word#limit }" >> "$work/limits" ;;
    esac
  done ) &
reader=$!
# Nothing is ever written to this pipe, so that a read of it waits without a program.
( exec {silent}<> <(:)
  while :; do
    read -r -t 1 -u "$silent"
    [ "$?" -gt 128 ] || sleep 1
    note
  done ) < /dev/null &
noter=$!
timer=
if [ "$limit_ms" -gt 0 ]; then
  now
  began_cs=$now_cs
  sleep_until() {
    local rest_ms
    now
    rest_ms=$(($1 - 10 * (now_cs - began_cs)))
    [ "$rest_ms" -le 0 ] || sleep "$((rest_ms / 1000)).$(printf %03d "$((rest_ms % 1000))")"
  }
  # Sets `longer` to the limit in place of this one, as the shell tells all ranks. Takes less than
  # `asking_ms`: 0.1 s of sleep and the start of a program are one of the tries.
  ask() {
    local tries before after
    longer=$limit_ms
    tell due "$limit_ms"
    for ((tries = asking_ms / 107; tries > 0; tries--)); do
      while read -r before after; do
        if [ "$before" = "$limit_ms" ]; then
          longer=$after
          return
        fi
      done < "$work/limits"
      sleep 0.1
    done
  }
  : > "$work/limits"
  ( while :; do
      early_ms=$((ahead_ms < limit_ms / 2 ? ahead_ms : limit_ms / 2))
      due_ms=$((limit_ms - early_ms))
      asking_ms=$((due_ms < 64000 ? due_ms / 4 : 16000))
      sleep_until "$((due_ms - asking_ms))"
      ask
      [ "$longer" -gt "$limit_ms" ] || break
      limit_ms=$longer
    done
    sleep_until "$due_ms"
    kill -s VTALRM "$$"
    sleep_until "$limit_ms"
    kill -s ALRM "$$" ) < /dev/null &
  timer=$!
fi

@AWAIT@
await "$pid"
# What is lost was being ended.
code=${status:-143}
[ "$code" -le 128 ] || [ "$code" -gt 192 ] || code=$((128 - code))
# Logs with an exit code beside them are taken for complete.
catch_up
kill -s KILL -- "-$noter"
wait "$noter"
again["$name.stdout"]=1 again["$name.stderr"]=1
note
leave "$code"
# What the script leaves behind has heard the notice, and keeps the rest of its grace.
if [ -n "$noticed" ]; then
  while look && [ "${#members[@]}" -gt 0 ] && [ -z "$stopped$expired" ]; do
    now
    [ -n "$due" ] || [ "$now_cs" -lt "$((noticed_cs + 100 * grace_s))" ] || break
    sleep 0.1
  done
  [ "${#members[@]}" -eq 0 ] || kill -s KILL "${members[@]}"
  catch_up
  note
fi
for helper in $reader $timer $killer; do kill -s KILL -- "-$helper"; done
rm -rf -- "$work"
[ -z "$due" ] || tell limit
tell exit "$code"
exit 0
"""

SHELL = r"""#!/bin/bash
# Runs one workload of Tidegate; made by it, for this job alone.
export HOME=~ PATH=@PATH@
export USER="${SLURM_JOB_USER:-$(id -un)}"
export LOGNAME=$USER
key=@KEY@
directory=@DIRECTORY@
tag=@TAG@
ulimit -c 0
[ -d "$directory" ] || mkdir -p -- "$directory" || kill -s SYS "$$"
for file in "$directory/$key".*; do
  if [ -e "$file" ] || [ -L "$file" ]; then
    rm -f -- "$directory/$key".*
  fi
  break
done
set -C
exec > "$directory/$key.shell" 2>&1
# The job's own folder, from which the portal lists files.
export TIDEGATE_OUTPUT_DIR=@FILES@
[ -d "$TIDEGATE_OUTPUT_DIR" ] || mkdir -- "$TIDEGATE_OUTPUT_DIR"

noticed= aborted= stopped= cancelled=
@AWAIT@
order() { ( printf '%s\n' "$1" >&6 ) 2> /dev/null; }
notice() { noticed=1; order notice; }
stop() { stopped=1; order stop; }
abort() {
  { [ -n "$noticed" ] || [ -n "$aborted" ]; } && return
  aborted=1
  order abort
}
trap : HUP INT QUIT USR1 USR2
trap 'cancelled=1' TERM

@ADDRESS@port=$((@PORT_FIRST@ + SLURM_JOB_ID % @PORTS@))
rank_program=@RANK@
@CONTAINER@@START@ranks=$!
# What has ended by now, as an srun that is refused, has nothing to tell and nobody to be told.
{ exec 5<&"${COPROC[0]}" 6>&"${COPROC[1]}"; } 2> /dev/null || exec 5< /dev/null 6> /dev/null
base64 -d >&6 << 'TIDEGATE_PAYLOAD'
@PAYLOAD@
TIDEGATE_PAYLOAD
trap notice URG
trap stop ABRT
[ -z "$stopped" ] || order stop

limited= refused= failed=
# Sets `minutes` to the job's limit as Slurm has it now; to "" if it does not answer.
look_up() {
  local days=0 hours text
  minutes=
  text=$(timeout 10 scontrol show job "$SLURM_JOB_ID" | sed -n 's/.*TimeLimit=\([^ ]*\).*/\1/p')
  [[ $text =~ ^(([0-9]+)-)?([0-9]+):([0-9]+):[0-9]+$ ]] || return
  days=${BASH_REMATCH[2]:-0} hours=${BASH_REMATCH[3]} minutes=${BASH_REMATCH[4]}
  minutes=$(((10#$days * 24 + 10#$hours) * 60 + 10#$minutes))
}
answered=' '
extend() {
  local longer=$1
  [[ $answered != *" $1 "* ]] || return
  look_up
  # Slurm has the limit in whole minutes, rounded up.
  [ "${minutes:-0}" -le "$((($1 + 59999) / 60000))" ] || longer=$((minutes * 60000))
  answered+="$1 "
  order "limit $1 $longer"
}
while read -r word rank value <&5; do
  case $word in
    noticed) noticed=1 ;;
    due) extend "$value" ;;
    limit) limited=1 noticed=1 ;;
    refused) refused=1; abort ;;
    exit)
      if [ "$value" != 0 ]; then
        failed=${failed:-$value}
        abort
      fi ;;
  esac
done
await "$ranks" 2> /dev/null
# Every rank has said how it ended, or its node is lost, which Slurm knows.
status=${status:-0}
if [ -n "$stopped" ]; then
  # The cancel that follows comes as TERM, and says how the job ended.
  for _ in {1..50}; do
    [ -z "$cancelled" ] || exit 143
    sleep 0.2
  done
  trap - ABRT
  kill -s ABRT "$$"
fi
@CONTAINER_CHECK@[ -z "$limited" ] || kill -s XCPU "$$"
[ -z "$refused" ] || kill -s SYS "$$"
[ "${failed:-0}" -ge 0 ] || failed=$((128 - failed))
exit "${failed:-$status}"
"""


ADDRESS = r"""
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address=$(scontrol show node "$first" | sed -n 's/.*NodeAddr=\([^ ]*\).*/\1/p')
"""

SRUN = r"""
# Until the ranks can be told. What srun is to ignore must be ignored before it starts.
trap '' ABRT
# A rank that dies without a word is an error of the node; what scripts do is never one.
coproc srun --nodes=@RANKS@ --ntasks=@RANKS@ --ntasks-per-node=1 --distribution=block \
  --input=all --wait=0 --kill-on-bad-exit=1 --mpi=none --export=ALL@CONTAINER_OPTIONS@ \
  /bin/bash -c "$rank_program" tidegate-rank "$key" "$directory" \
  @SETTINGS_BYTES@ @SCRIPT_BYTES@ "$tag" @GPUS@ @RANKS@ "${address:-$first}" "$port"
"""

# No other node needs the address of a single rank. It could not trap a signal that is ignored here.
ALONE = r"""
trap 'stopped=1' ABRT
coproc /bin/bash -c "$rank_program" tidegate-rank "$key" "$directory" \
  @SETTINGS_BYTES@ @SCRIPT_BYTES@ "$tag" @GPUS@ 1 127.0.0.1 "$port"
"""


CONTAINER = r"""
image=$(base64 -d <<< @IMAGE@)
container=("--container-image=$image" --container-mounts=@MOUNTS@ --container-workdir=@WORKDIR@)
"""

# A rank that srun could not start leaves no output file at all.
CONTAINER_CHECK = r"""
if [ "$status" != 0 ] && [ -z "$cancelled" ]; then
  for ((rank = 0; rank < @RANKS@; rank++)); do
    [ ! -e "$directory/$key.$rank.stdout" ] && [ ! -e "$directory/$key.$rank.exit" ] || continue
    said=$(tail -n 5 -- "$directory/$key.shell" | tr '\n' ' ')
    printf 'not started: srun --container-image=%s: %s\n' "$image" "${said:0:400}" \
      > "$directory/$key.$rank.exit"
    refused=1
    break
  done
fi
"""
