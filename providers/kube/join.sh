# Joins this host to a cluster. A host that is already a node is left unchanged. The remains of an
# unfinished join are removed first.
set -eu
umask 077
complain() { echo "$1" >&2; exit 1; }
command -v kubeadm >/dev/null || complain 'this host has no kubeadm: install it with its image, or in a step before the join'
unfinished=/etc/kubernetes/holdfast-joining # from before kubeadm begins until it has succeeded
if [ -e /etc/kubernetes/kubelet.conf ]; then
  if [ -n "$known" ]; then
    echo "this host is a $as of $cluster already"
    exit 0
  fi
  [ -e "$unfinished" ] || complain "this host belongs to a cluster already (/etc/kubernetes/kubelet.conf), and is no $as of $cluster: run kubeadm reset on it, or repave it"
fi
if [ -e /etc/kubernetes/bootstrap-kubelet.conf ] || [ -e /etc/kubernetes/pki/ca.crt ] || [ -e "$unfinished" ]; then
  echo 'clearing away what an earlier join has left'
  kubeadm reset --force
fi
conf="$(mktemp -p /run holdfast-join.XXXXXX)"
trap 'rm -f "$conf"' EXIT
trap 'exit 143' HUP INT TERM
cat >"$conf" <<'END_OF_CONFIGURATION'
@CONFIGURATION@
END_OF_CONFIGURATION
mkdir -p /etc/kubernetes
: >"$unfinished"
kubeadm join --config "$conf"
rm -f "$unfinished"
