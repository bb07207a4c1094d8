package plans

import (
	"regexp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The scripts of the built-in plans that run on Kubernetes nodes, as root, as durable
// commands. Parameters of the run are passed as environment variables
// (HOLDFAST_PARAM_VERSION) and never inserted into the script.

// onNode finds the node's name and usable credentials: the step's KUBECONFIG, else an
// administrator's on the host, else the kubelet's own.
const onNode = `set -eu
complain() { echo "$1" >&2; return 1; }
node="$(hostname | tr '[:upper:]' '[:lower:]')"
for conf in "${KUBECONFIG:-}" /etc/kubernetes/admin.conf /etc/kubernetes/kubelet.conf; do
  if [ -r "$conf" ]; then break; fi
done
export KUBECONFIG="$conf"
`

const needsKubectl = `command -v kubectl >/dev/null || complain 'this host is a node of a cluster and has no kubectl: install it, or set the node aside from elsewhere'
`

const drainNode = `kubectl drain "$node" --ignore-daemonsets --delete-emptydir-data --timeout=`

// drainCheck drains a host that is a node. A host that is not a node has nothing to drain. If
// this cannot be determined, the host does not count as drained.
const drainCheck = onNode + `if [ ! -e /etc/kubernetes/kubelet.conf ]; then
  echo 'this host is no node of a cluster: there is nothing to drain'
else
  ` + needsKubectl + "  " + drainNode + "300s\nfi\n"

// upgradeKubelet upgrades the host to a version, by default to the newest of its package
// repository, which has one minor version (pkgs.k8s.io). kubeadm is upgraded first, because
// it knows the requirements of the newer kubelet.
const upgradeKubelet = `set -eu
complain() { echo "$1" >&2; return 1; }
version="${HOLDFAST_PARAM_VERSION:-}"
version="${version#v}"
command -v apt-get >/dev/null || complain 'this host has no apt-get: upgrade it with a plan of your own'
export DEBIAN_FRONTEND=noninteractive
apt-get update
want=''
if [ -n "$version" ]; then
  full="$(apt-cache madison kubelet | awk -v v="$version" '$3 == v || index($3, v "-") == 1 { print $3; exit }')"
  [ -n "$full" ] || complain "there is no package of kubelet $version: is the repository that of its minor version?"
  want="=$full"
fi
apt-get install -y --allow-change-held-packages "kubeadm$want"
kubeadm upgrade node
apt-get install -y --allow-change-held-packages "kubelet$want" "kubectl$want"
apt-mark hold kubeadm kubelet kubectl
`

const restartKubelet = `set -eu
complain() { echo "$1" >&2; return 1; }
systemctl daemon-reload
systemctl restart kubelet
systemctl is-active kubelet
has="$(kubelet --version)"
echo "$has"
version="${HOLDFAST_PARAM_VERSION:-}"
version="${version#v}"
[ -z "$version" ] || [ "$has" = "Kubernetes v${version%%-*}" ] || complain "the kubelet is $has, not $version"
`

// VersionOK matches a version of Kubernetes, with or without a package revision: 1.31.2,
// v1.31.2, 1.31.2-1.1.
var VersionOK = regexp.MustCompile(`^v?[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}(-[0-9A-Za-z.+~]{1,40})?$`)

// The plans of `holdfast machine drain` and `uncordon`. A disruption budget may hold a drain for
// long, so it has one attempt, in which it evicts repeatedly.
func setAsidePlans() []*holdfastv1.Plan {
	return []*holdfastv1.Plan{
		{PlanId: "plan/drain", DisplayName: "Drain the node", Steps: []*holdfastv1.Step{
			cordonNode(), sshStep("drain-node", 1800, 0, onNode+needsKubectl+drainNode+"1500s\n"),
		}},
		{PlanId: "plan/uncordon", DisplayName: "Let pods onto the node again", Steps: []*holdfastv1.Step{uncordonNode()}},
	}
}

func cordonNode() *holdfastv1.Step {
	return sshStep("cordon-node", 300, 2, onNode+needsKubectl+"kubectl cordon \"$node\"\n")
}

func uncordonNode() *holdfastv1.Step {
	return sshStep("uncordon-node", 300, 2, onNode+needsKubectl+"kubectl uncordon \"$node\"\n")
}

func upgradePlan() *holdfastv1.Plan {
	return &holdfastv1.Plan{PlanId: DefaultID("UPGRADE"), DisplayName: "Upgrade the kubelet", Params: []*holdfastv1.Param{{
		Name: "version", Type: holdfastv1.Param_NAME, Max: new(int32(60)),
		Description: "version of Kubernetes, such as 1.31.2; if it is not set, the newest of the host's package repository",
	}}, Steps: []*holdfastv1.Step{
		cordonNode(),
		sshStep("drain-node", 1800, 2, onNode+needsKubectl+drainNode+"1500s\n"),
		sshStep("upgrade-kubelet", 1800, 2, upgradeKubelet),
		sshStep("restart-kubelet", 300, 2, restartKubelet),
		uncordonNode(),
		stepOf("verify-upgrade", 1, &holdfastv1.VerifyInCluster{}),
	}}
}
