# One attempt to install a package by apt, or to do something with several of the system's. It does
# not wait for locks: the run tries again. Before it stand the values of: package, doing (install,
# hold, unhold or upgrade), state (a folder), update (yes or no), sources (apt's lines).
# Prints sections: @@held, @@updated, @@completed, and in the end @@done or @@failed. Exits 0.
# By default Ubuntu also restarts other services after an installation.
export LC_ALL=C DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
# A file, as apt outlives a lost connection but not a broken pipe.
log=/run/lock/sparkwright-apt.log
held() {
  line=$(grep -E -m 1 'Could not get lock|locked by another process' "$log") || return 0
  pid=$(echo "$line" | sed -n 's/.*\(held by process\|with pid\) \([0-9]*\).*/\2/p')
  echo @@held
  echo "$line" | grep -o '/[^ ]*lock[a-z-]*' || echo "dpkg's lock"
  echo "$pid"
  cat "/proc/${pid:-none}/comm" 2>/dev/null || echo "another program"
  sed -n 's|.*/\([^/]*\.service\)$|\1|p' "/proc/${pid:-none}/cgroup" 2>/dev/null | tail -n 1
  exit 0
}
try() { "$@" </dev/null >"$log" 2>&1; status=$?; [ "$status" = 0 ] || held; }
# dpkg may have been cut off, as by a loss of power.
mended() {
  try "$@"
  if [ "$status" != 0 ] && grep -q 'dpkg was interrupted' "$log"; then
    try dpkg --force-confdef --force-confold --configure -a
    echo @@completed
    [ "$status" != 0 ] || try "$@"
  fi
}

exec 9>/run/lock/sparkwright-apt
if ! flock --nonblock 9; then
  printf '%s\n' @@held /run/lock/sparkwright-apt '' 'apt-get of an earlier run'
  exit 0
fi
only=
if [ -n "$sources" ]; then
  # Folders of its own: apt forgets the lists of sources that it is not to read. The keys are those
  # by which the Spark's own apt checks packages: nothing that comes with them vouches for them.
  own=$(mktemp -d) && trap 'rm -rf "$own"' EXIT && chmod 755 "$own" &&
    mkdir "$own/lists" "$own/keys" && printf '%s\n' "$sources" >"$own/sources.list" || exit
  eval "$(apt-config shell list Dir::Etc::sourcelist/f parts Dir::Etc::sourceparts/d \
    trusted Dir::Etc::trustedparts/d)"
  named=$(sed -n 's|^[^#]*[Ss]igned-[Bb]y[=:] *\(/[^] ,]*\).*|\1|p' \
    "$list" "${parts%/}"/* 2>/dev/null)
  for key in "${trusted%/}"/* /usr/share/keyrings/ubuntu-archive-keyring.gpg $named; do
    [ ! -f "$key" ] || install -m 644 "$key" "$own/keys/$(echo "$key" | tr / _)" || exit
  done
  only="-o Dir::Etc::sourcelist=$own/sources.list -o Dir::Etc::sourceparts=/dev/null
    -o Dir::Etc::trusted=/dev/null -o Dir::Etc::trustedparts=$own/keys
    -o Dir::State::lists=$own/lists -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
    -o APT::Get::AllowUnauthenticated=false -o Acquire::AllowInsecureRepositories=false
    -o Acquire::Check-Valid-Until=false"
fi
if [ "$update" = yes ]; then
  try apt-get update --quiet $only
  echo @@updated
  grep '^[EW]: ' "$log"
fi
packages() {
  mended apt-get install --quiet --yes --option DPkg::Lock::Timeout=0 \
    --option Dpkg::Options::=--force-confold "$@"
}
mkdir -p "$state" || exit
case $doing in
install)
  # Written down before the installation, which may be cut off; so are marks.
  touch "$state/installed" || exit
  dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null |
    grep -qx installed || grep -Fqx "$package" "$state/installed" ||
    echo "$package" >>"$state/installed"
  if [ -z "$sources" ] || [ "$status" = 0 ]; then
    packages $only --no-install-recommends "$package"
  fi ;;
hold)
  touch "$state/held" || exit
  for name in $package; do
    grep -Fqx "$name" "$state/held" || echo "$name" >>"$state/held" || exit
  done
  try apt-mark hold $package ;;
unhold)
  names=$(apt-mark showhold | grep -Fxf "$state/held")
  status=0
  [ -z "$names" ] || try apt-mark unhold $names
  [ "$status" != 0 ] || rm -f "$state/held" ;;
upgrade)
  packages --only-upgrade --allow-change-held-packages $package ;;
esac
if [ "$status" = 0 ]; then
  echo @@done
else
  echo @@failed
  grep -E '^(E:|dpkg: error) ' "$log" || tail -n 3 "$log"
fi
true
