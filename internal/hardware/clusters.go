package hardware

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/kube"
)

// clusterSecret is the prefix of the secrets of registered clusters. cluster/NAME has the type join
// and a kubeconfig (holdfast cluster-ref add).
const clusterSecret = "cluster/"

// clusters implements kube.Clusters with the secrets of registered clusters.
type clusters struct{ h *Hardware }

// Cluster returns the access to a cluster for a machine. A cluster of some pools is refused to
// machines of others.
func (c clusters) Cluster(ctx context.Context, m providers.Machine, ref string) (kube.Registered, error) {
	name := clusterSecret + ref
	stored, ok := c.h.inventory.View().Secret(name)
	if !ok {
		return kube.Registered{}, &providers.NotAsked{Reason: providers.ClusterNotRegistered,
			Err: fmt.Errorf("cluster %q is not registered: register it with holdfast cluster-ref add %s --kubeconfig FILE",
				ref, ref)}
	}
	if pools := stored.GetSecret().GetPools(); len(pools) > 0 && !slices.Contains(pools, m.GetSpec().GetPool()) {
		return kube.Registered{}, &providers.NotAsked{Reason: "ClusterOfOtherPools",
			Err: fmt.Errorf("cluster %q is for pool %s, and machine %s is not in it", ref, strings.Join(pools, ", "),
				m.GetMachineId())}
	}
	s, err := c.h.open(ctx, name, "join")
	if err != nil {
		return kube.Registered{}, err
	}
	kubeconfig := s.Values["kubeconfig"].Reveal()
	if kubeconfig == "" {
		return kube.Registered{}, &providers.NotAsked{Reason: "NoCredentials",
			Err: fmt.Errorf("secret %q has no kubeconfig: register the cluster with holdfast cluster-ref add %s "+
				"--kubeconfig FILE", name, ref)}
	}
	return kube.Registered{Kubeconfig: []byte(kubeconfig), CertificateKey: s.Values["certificate_key"].Reveal(),
		Version: fmt.Sprintf("%d/%s", s.Version, stored.GetSecret().GetCreatedAt().AsTime())}, nil
}
