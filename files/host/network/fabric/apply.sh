# Puts the fabric's netplan file in force, or leaves the network as it was.
# Usage: apply.sh TEXT BACKUPS MTU NETDEV=INTERFACE... [NETDEV THAT IS LEFT]...
set -u
file=/etc/netplan/60-sparkwright-fabric.yaml
text=$1 backups=$2 mtu=$3 twins='' left=''
shift 3
for each in "$@"; do
  case $each in *=*) twins="$twins ${each%%=*}" ;; *) left="$left $each" ;; esac
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Where nothing was set up, whoever looks for this Spark by its cables is to be answered again.
fail() {
  [ -e "$file" ] || all answering
  echo "$1" >&2
  exit 1
}
answering() { echo 0 >"/proc/sys/net/ipv4/conf/$1/arp_ignore"; }

# Addresses and default routes of every other interface: what must not be lost.
lan() {
  ip -o -4 address show scope global |
    awk -v fabric="$twins$left " '!index(fabric, " " $2 " ") {print $2, $4}'
  ip -4 route show default | sed -n 's/^default \(via [^ ]* dev [^ ]*\).*/default \1/p'
}

in_force() {
  for each in "$@"; do
    netdev=${each%%=*} address=${each#*=}
    [ "$netdev" != "$each" ] || continue
    ip -o -4 address show dev "$netdev" | grep -qF " inet $address " || return 1
    [ "$(cat "/sys/class/net/$netdev/mtu")" = "$mtu" ] || return 1
    [ "$(cat "/sys/class/net/$netdev/carrier" 2>/dev/null)" = 1 ] || return 1
  done
}

# netplan apply has NetworkManager drop the LAN for seconds: there, only the twins start anew.
apply() {
  if all profile; then
    netplan generate && nmcli connection reload && all up && return
  fi
  netplan apply
}
all() { for netdev in $twins; do "$1" "$netdev" || return; done; }
profile() { [ -e "$work/root/run/NetworkManager/system-connections/netplan-$1.nmconnection" ]; }
up() { nmcli --wait 15 connection up "netplan-$1"; }

back() {
  if [ -e "$work/previous" ]; then cp -a "$work/previous" "$file"; else rm -f "$file"; fi
  apply >"$work/log" 2>&1 || fail "$1 So did the previous settings: $(cat "$work/log")"
  fail "$1 The previous network settings are in force again."
}

put() { (umask 077 && printf %s "$text" >"$1.new") && mv "$1.new" "$1"; }

for folder in etc run usr/lib; do
  [ -d "/$folder/netplan" ] || continue
  mkdir -p "$work/root/$folder" && cp -a "/$folder/netplan" "$work/root/$folder/"
done
mkdir -p "$work/root/etc/netplan" && put "$work/root$file"
if ! netplan generate --root-dir "$work/root" >"$work/log" 2>&1; then
  sed -i "s|$work/root||g" "$work/log"
  mend="correct them and run again; nothing was changed."
  # Only NetworkManager reads what it writes; it may write what netplan refuses.
  written=$(grep -o '/etc/netplan/90-NM-[^:]*\.yaml' "$work/log" | sort -u | paste -s -d ' ')
  [ -z "$written" ] || mend="NetworkManager wrote $written. Move that connection away \
(\`sudo mv $written /root/ && sudo netplan generate && sudo nmcli connection reload\`) and run \
again; nothing was changed."
  fail "netplan refuses its files: $mend
$(cat "$work/log")"
fi

install -d -m 700 "$backups" &&
  cp -a /etc/netplan "$backups/netplan-$(date -u +%Y%m%dT%H%M%SZ)" ||
  fail "No copy of /etc/netplan could be made in $backups; nothing was changed."
[ ! -e "$file" ] || cp -a "$file" "$work/previous"
lan >"$work/before"

put "$file"
for netdev in $left; do ip -4 address flush dev "$netdev"; done
apply >"$work/log" 2>&1 || back "netplan apply failed: $(cat "$work/log")"

# What the LAN takes anew comes back in seconds, Wi-Fi in ten and more.
tries=0
until lost=$(lan | grep -Fxv -f - "$work/before"); [ -z "$lost" ]; do
  tries=$((tries + 1))
  [ "$tries" -le 60 ] ||
    back "30 s after netplan apply the LAN lacked $(echo "$lost" | paste -s -d ';')."
  sleep 0.5
done
tries=0
until in_force "$@"; do
  tries=$((tries + 1))
  [ "$tries" -le 30 ] || fail "15 s after netplan apply not all have address, MTU $mtu and a link: \
$*. Look at \`ip address\`, \`networkctl status$twins\`, \`nmcli device\`."
  sleep 0.5
done
# What was learned before the twins were kept apart.
for netdev in $twins; do ip -4 neigh flush dev "$netdev"; done
