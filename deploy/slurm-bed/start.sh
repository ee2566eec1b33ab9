#!/usr/bin/env bash
# Starts a real Slurm on this machine, as root, from Debian's packages: munged, MariaDB, slurmdbd,
# slurmctld, slurmrestd with JSON web tokens, and one slurmd per node. Settings: settings.sh.
# Started a second time it finds what runs, starts what does not, and changes nothing else.
set -euo pipefail
umask 022
KEEP_SETTINGS=yes
. "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
. "$HERE/daemons.sh"
must_be_root
BEGAN_MS=$(date +%s%3N)

PROGRAMS="mariadbd:mariadb-server mariadb-install-db:mariadb-server mariadb:mariadb-client \
munged:munge slurmctld:slurmctld slurmd:slurmd slurmdbd:slurmdbd slurmrestd:slurmrestd \
scontrol:slurm-client setpriv:util-linux unshare:util-linux useradd:passwd ps:procps"
PLUGINS="auth_jwt:slurm-wlm-jwt-plugin accounting_storage_mysql:slurm-wlm-mysql-plugin \
select_cons_tres:slurm-wlm-basic-plugins"

missing_packages() {
  local pair
  for pair in $PROGRAMS; do command -v "${pair%%:*}" >/dev/null || echo "${pair##*:}"; done
  for pair in $PLUGINS; do
    compgen -G "/usr/lib/*/slurm*/${pair%%:*}.so" >/dev/null || echo "${pair##*:}"
  done
}

install_packages() {
  local missing
  missing=$(missing_packages | sort -u | tr '\n' ' ')
  [ -n "$missing" ] || return 0
  command -v apt-get >/dev/null ||
    complain "these packages are missing and there is no apt-get to install them: $missing"
  say "installing $missing"
  # RUNLEVEL=1 keeps the distribution from starting its own daemons: the bed runs private ones.
  # Somebody else may be installing: wait for them.
  local apt=(env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -qq -o DPkg::Lock::Timeout=300
    -o Acquire::Retries=2 -o Acquire::http::Timeout=30)
  timeout 300 "${apt[@]}" update >/dev/null 2>"$BED/log/apt.log" ||
    complain "the lists of packages cannot be fetched (no network?), and these are missing: $missing" \
      "-- apt-get says: $(tail -n 2 "$BED/log/apt.log" | tr '\n' ' ')"
  timeout 900 "${apt[@]}" install --yes --no-install-recommends $missing >/dev/null 2>"$BED/log/apt.log" ||
    complain "apt-get could not install $missing -- it says: $(tail -n 3 "$BED/log/apt.log" | tr '\n' ' ')"
  missing=$(missing_packages | sort -u | tr '\n' ' ')
  [ -z "$missing" ] || complain "still missing after the installation: $missing"
}

check_disk() {
  local free_mb
  free_mb=$(df --output=avail -BM "$BED" | tail -n 1 | tr -dc 0-9)
  ((free_mb >= 1024)) || complain "only $free_mb MiB are free under $BED and the bed needs 1024:" \
    "make room, or set TIDEGATE_SLURM_BED to a folder on another disk."
}

# Prints the command and the process that listen on a port.
holder_of() {
  local inode found
  inode=$(awk -v port="$(printf ':%04X' "$1")" '$4 == "0A" && $2 ~ port "$" {print $10; exit}' \
    /proc/net/tcp /proc/net/tcp6 2>/dev/null)
  found=$(find /proc -mindepth 3 -maxdepth 3 -path '/proc/[0-9]*/fd/*' -lname "socket:\[$inode\]" \
    -printf '%P\n' -quit 2>/dev/null || true)
  found=${found%%/*}
  if [ -n "$found" ]; then
    echo "process $found ($(tr '\0' ' ' <"/proc/$found/cmdline" 2>/dev/null | cut -c 1-120))"
  else
    echo "another program"
  fi
}

# Ports of daemons that do not run yet must be free.
check_ports() {
  local taken port name node=$PORT_NODE wanted=""
  taken=" $(awk '$4 == "0A" {split($2, a, ":"); print a[2]}' /proc/net/tcp /proc/net/tcp6 2>/dev/null |
    while read -r port; do printf '%d ' "0x$port"; done)"
  runs sql || wanted+=" $PORT_SQL"
  runs ctld || wanted+=" $PORT_CTLD"
  runs dbd || wanted+=" $PORT_DBD"
  runs rest || wanted+=" $PORT_REST"
  while read -r name; do
    runs "$name" || wanted+=" $node"
    node=$((node + 1))
  done < <(node_names)
  for port in $wanted; do
    case $taken in *" $port "*)
      complain "port $port is taken by $(holder_of "$port"): end it, or set BASE (now $BASE) to" \
        "the first of 1000 free ports."
      ;;
    esac
  done
}

add_users() {
  local user
  id "$REST_USER" >/dev/null 2>&1 ||
    useradd --system --no-create-home --home-dir /nonexistent --comment "$USER_MARK" \
      --shell /usr/sbin/nologin "$REST_USER"
  for user in $SERVICE_USER $USERS; do
    id "$user" >/dev/null 2>&1 ||
      useradd --user-group --no-create-home --home-dir /nonexistent --comment "$USER_MARK" \
        --shell /bin/bash "$user"
    (($(id -u "$user") >= 1000)) ||
      complain "the user $user exists with id $(id -u "$user"), a system's; the bed needs 1000 or more."
    install -d -o "$user" -g "$user" -m 0755 "$BED/home/$user"
    # What a job writes here belongs to the service's group, which may read it; others may not.
    install -d -o "$user" -g "$SERVICE_USER" -m 2750 "$BED/outputs/$user"
  done
}

make_folders() {
  local i
  mkdir -p "$BED"/{etc,run,log,state,spool,munge,work,dev,home,outputs}
  chmod 755 "$BED" "$BED"/{etc,run,log,spool,dev,home,outputs}
  chmod 711 "$BED/munge"
  chmod 1777 "$BED/work"
  for ((i = 0; i < GPUS_PER_NODE; i++)); do
    [ -e "$BED/dev/gpu$i" ] || mknod -m 666 "$BED/dev/gpu$i" c 1 3 ||
      complain "mknod is refused (a container without that right?): Slurm wants a device per GPU."
  done
}

secret() { [ -s "$1" ] || (umask 077; head -c "$2" /dev/urandom >"$1"); }

make_secrets() {
  secret "$BED/etc/jwt_hs256.key" 32
  secret "$BED/munge/key" 128
  [ -s "$BED/etc/sql_password" ] ||
    (umask 077; head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$BED/etc/sql_password")
}

# Private names need the right to make namespaces, which some containers lack.
choose_names() {
  [ -z "$NAMES" ] || return 0
  NAMES=private
  { cat /etc/hosts; node_names | sed 's/^/127.0.0.1 /'; echo "127.0.0.1 ctl"; } >"$BED/etc/hosts"
  if [ "$(in_place ctl uname -n 2>>"$BED/log/start.log")" != ctl ]; then
    NAMES=shared
    say "this machine lets us make no namespaces: every node calls itself $(uname -n), and node" \
      "names cannot be looked up."
  fi
}

# node_line FORMAT FIRST LAST FIRST_PORT GRES FEATURES: nodes FIRST to LAST of a kind, without GPUs where
# GRES is empty; none, no line.
node_line() {
  local list hosts
  (($2 <= $3)) || return 0
  list=$(printf "$1" "$2" "$3")
  hosts=$list
  [ "$NAMES" = private ] || { hosts=$(uname -n); hosts=${hosts%%.*}; }
  echo "NodeName=$list NodeHostname=$hosts NodeAddr=127.0.0.1 Port=[$4-$(($4 + $3 - $2))]" \
    "${5:+Gres=$5 }Feature=$6"
}

# The last half of the H100 nodes has nvlink and the last quarter ib besides: Slurm fills nodes from
# the first on, so what lands there was asked to.
node_lines() {
  local half=$((H100_NODES - H100_NODES / 2)) most=$((H100_NODES - H100_NODES / 4))
  local h100=gpu:h100:$GPUS_PER_NODE a100=gpu:a100:$GPUS_PER_NODE
  node_line 'h[%03d-%03d]' 1 "$half" "$PORT_NODE" "$h100" h100
  node_line 'h[%03d-%03d]' $((half + 1)) "$most" $((PORT_NODE + half)) "$h100" h100,nvlink
  node_line 'h[%03d-%03d]' $((most + 1)) "$H100_NODES" $((PORT_NODE + most)) "$h100" h100,nvlink,ib
  node_line 'a[%02d-%02d]' 1 "$A100_NODES" $((PORT_NODE + H100_NODES)) "$a100" a100
  node_line 'c[%02d-%02d]' 1 "$CPU_NODES" $((PORT_NODE + H100_NODES + A100_NODES)) "" cpu
  node_line 's[%d-%d]' 1 "$SLICED_NODES" $((PORT_NODE + H100_NODES + A100_NODES + CPU_NODES)) \
    "$(sliced_gpus | sed 's/^/gpu:/' | paste -sd,)" sliced
  ((SLICED_NODES == 0)) || echo "PartitionName=sliced Nodes=s[1-$SLICED_NODES]" \
    "DefaultTime=01:00:00 MaxTime=7-00:00:00 State=UP"
}

sliced_gpus() { printf '%s\n' $SLICED_GPUS; }

# The GPUs of the sliced nodes in gres.conf, one kind after the other.
sliced_devices() {
  local one first=0
  ((SLICED_NODES > 0)) || return 0
  for one in $SLICED_GPUS; do
    echo "NodeName=s[1-$SLICED_NODES] Name=gpu Type=${one%:*}" \
      "File=$BED/dev/gpu[$first-$((first + ${one#*:} - 1))]"
    first=$((first + ${one#*:}))
  done
}

write_configuration() {
  local name ctl loopback="" list_h list_a list_c counted=""
  ((SLICED_NODES == 0)) || counted=$(sliced_gpus | sed 's|^|,gres/gpu:|; s|:[0-9]*$||' | tr -d '\n')
  list_h=$(printf 'h[001-%03d]' "$H100_NODES")
  list_a=$(printf 'a[01-%02d]' "$A100_NODES")
  list_c=$(printf 'c[01-%02d]' "$CPU_NODES")
  if [ "$NAMES" = private ]; then
    ctl=ctl
  else
    ctl=$(uname -n); ctl=${ctl%%.*}
  fi
  # Slurm's way to bind elsewhere than everywhere is the address of the host's own name.
  if [ "$NAMES" = private ] || [[ $(getent ahostsv4 "$ctl" | head -n 1) == 127.* ]]; then
    loopback=CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
  else
    say "the name $ctl is no loopback address here: Slurm's daemons listen on every address."
  fi
  for name in slurm.conf slurmdbd.conf gres.conf; do
    (
      [ "$name" = slurmdbd.conf ] && umask 077
      sed -e "s|@BED@|$BED|g; s|@CLUSTER@|$CLUSTER|g; s|@CTL_HOST@|$ctl|g; s|@LOOPBACK@|$loopback|g" \
        -e "s|@PORT_SQL@|$PORT_SQL|g; s|@PORT_CTLD@|$PORT_CTLD|g; s|@PORT_DBD@|$PORT_DBD|g" \
        -e "s|@PORT_NODE@|$PORT_NODE|g; s|@PORT_SRUN@|$PORT_SRUN|g; s|@PORT_LAST@|$PORT_LAST|g" \
        -e "s|@H100_LIST@|$list_h|g; s|@A100_LIST@|$list_a|g; s|@CPU_LIST@|$list_c|g" \
        -e "s|@COUNTED@|$counted|g" \
        -e "s|@GPUS@|$GPUS_PER_NODE|g; s|@LAST_GPU@|$((GPUS_PER_NODE - 1))|g" \
        -e "s|@NODE_CPUS@|$NODE_CPUS|g; s|@CORES@|$((NODE_CPUS / 2))|g" \
        -e "s|@NODE_MEMORY_MB@|$NODE_MEMORY_MB|g; s|@MIN_JOB_AGE@|$MIN_JOB_AGE|g" \
        -e "s|@KILL_WAIT_S@|$KILL_WAIT_S|g; s|@NODE_TIMEOUT_S@|$NODE_TIMEOUT_S|g" \
        -e "s|@CREDENTIAL_S@|$CREDENTIAL_S|g; s|@SQL_PASSWORD@|$(cat "$BED/etc/sql_password")|g" \
        -e "/@NODES@/{r /dev/fd/3" -e "d}" -e "/@SLICES@/{r /dev/fd/4" -e "d}" \
        "$HERE/templates/$name.in" >"$BED/etc/$name" 3< <(node_lines) 4< <(sliced_devices)
    )
  done
  for name in $REMEMBERED; do printf '%s=%q\n' "$name" "${!name}"; done >"$BED/settings"
}

make_database() {
  [ -d "$BED/db/mysql" ] && return 0
  say "making the database"
  install -d -o mysql -g mysql -m 0700 "$BED/db"
  timeout 120 "${CLEAN[@]}" mariadb-install-db --no-defaults --datadir="$BED/db" --user=mysql \
    --auth-root-authentication-method=normal --skip-test-db >"$BED/log/mariadb-install.log" 2>&1 ||
    show_log "$BED/log/mariadb-install.log" "MariaDB could not make its files."
}

add_accounting_database() {
  timeout 60 mariadb --no-defaults -uroot --socket="$BED/db/socket" -e "
    CREATE DATABASE IF NOT EXISTS slurm_acct;
    CREATE USER IF NOT EXISTS slurm@'127.0.0.1' IDENTIFIED BY '$(cat "$BED/etc/sql_password")';
    GRANT ALL ON slurm_acct.* TO slurm@'127.0.0.1';" ||
    show_log "$(log_of sql)" "MariaDB refused to make Slurm's database."
}

dbd_answers() { timeout 10 sacctmgr -n list cluster >/dev/null 2>&1; }
ctld_answers() { [[ $(timeout 10 scontrol ping 2>/dev/null) == *'is UP'* ]]; }

add_cluster() {
  [ -n "$(timeout 30 sacctmgr -nP list cluster "$CLUSTER" format=cluster)" ] ||
    timeout 30 sacctmgr -i add cluster "$CLUSTER" >>"$BED/log/start.log" 2>&1 ||
    show_log "$(log_of dbd)" "slurmdbd refused the cluster $CLUSTER."
}

add_service_user() {
  [ -n "$(timeout 30 sacctmgr -nP list user "$SERVICE_USER" format=user)" ] ||
    timeout 30 sacctmgr -i add user "$SERVICE_USER" account=root cluster="$CLUSTER" \
      adminlevel="$SERVICE_LEVEL" >>"$BED/log/start.log" 2>&1 ||
    show_log "$(log_of dbd)" "slurmdbd refused the user $SERVICE_USER."
}

start_nodes() {
  # A few at a time: each start waits for its slurmd to say that it is up.
  export HERE BED
  node_names | xargs -r -P 4 -n 10 "$HERE/daemon.sh" start-nodes ||
    complain "not every slurmd came up; the lines above say which."
}

idle_nodes() { timeout 10 sinfo -h -N -t idle,mix,alloc -o %N 2>/dev/null | sort -u | wc -l; }
all_nodes_up() { [ "$(idle_nodes)" -eq "$NODE_COUNT" ]; }

everything_runs() {
  local name
  for name in munge sql dbd ctld rest $(node_names); do runs "$name" || return 1; done
}

if [ -e "$BED" ]; then
  [ -d "$BED" ] && [ "$(stat -c %u "$BED")" -eq 0 ] && [ ! -L "$BED" ] ||
    complain "$BED exists and is no folder of root's: remove it or set TIDEGATE_SLURM_BED."
fi
mkdir -p "$BED/log" || complain "cannot make the folder $BED."
take_lock
# Somebody else may have started it while we waited: what it was started with counts.
. "$HERE/settings.sh"

if [ -s "$BED/bed.json" ] && everything_runs; then
  for name in munge sql dbd ctld rest $(node_names); do start_daemon "$name"; done
  write_bed_json
  say "already running: $BED/bed.json"
  exit 0
fi

check_disk
install_packages
make_folders
add_users
make_secrets
choose_names
check_ports
write_configuration
setpriv --reuid=65534 --regid=65534 --clear-groups test -r "$SLURM_CONF" ||
  complain "other users cannot read $SLURM_CONF, so no job could: set TIDEGATE_SLURM_BED to a" \
    "folder that is not below a private one."
# Who began this: a test run stops only the bed that it started itself.
runs ctld || printf '%s' "${TIDEGATE_SLURM_STARTER:-}" >"$BED/starter"
trap '[ $? -eq 0 ] || echo "Slurm bed: not all of it came up; stop.sh ends what did." >&2' EXIT
start_daemon munge
make_database
start_daemon sql
add_accounting_database
start_daemon dbd
within 60 dbd_answers || show_log "$(log_of dbd)" "slurmdbd does not answer."
add_cluster
start_daemon ctld
within 60 ctld_answers || show_log "$(log_of ctld)" "slurmctld does not answer."
start_nodes
start_daemon rest
add_service_user
within 60 all_nodes_up || {
  timeout 10 sinfo -h -N -t down,drain,fail,unk -o '%N %T %E' >&2
  show_log "$(log_of ctld)" "only $(idle_nodes) of $NODE_COUNT nodes are up."
}
write_bed_json
say "$NODE_COUNT nodes up after $((($(date +%s%3N) - BEGAN_MS + 500) / 1000)) s: $BED/bed.json"
