// Package clusterref checks whether a cluster that a caller names is registered. It owns the
// text of the refusal, and must not know kubeconfigs.
//
// A cluster is checked only for providers that join registered clusters. A provider that keeps its
// own clusters may join any name.
package clusterref

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/nearest"
	"github.com/holdfast-metal/holdfast/providers"
)

// prefix begins the names of the secrets that contain registered clusters (docs/kubernetes.md).
const prefix = "cluster/"

// Uses reports whether a provider joins registered clusters.
func Uses(p providers.Provider) bool {
	j, ok := p.(interface{ JoinsRegistered() bool })
	return ok && j.JoinsRegistered()
}

// Registered reports whether a cluster is registered.
func Registered(v *fsm.View, ref string) bool {
	_, ok := v.Secret(prefix + ref)
	return ok
}

// Problem returns the text of the refusal of a cluster that is not registered. It suggests only
// clusters that machines of the pool may join.
func Problem(v *fsm.View, ref, pool string) string {
	var names []string
	for s := range v.Secrets(prefix) {
		name, ok := strings.CutPrefix(s.GetSecret().GetName(), prefix)
		if !ok {
			break
		}
		if pools := s.GetSecret().GetPools(); len(pools) == 0 || slices.Contains(pools, pool) {
			names = append(names, name)
		}
	}
	text := fmt.Sprintf("cluster %.64q is not registered", ref)
	if like := nearest.Of(ref, names); like != "" {
		text += fmt.Sprintf(": did you mean %q?", like)
	}
	return text + ": see: holdfast cluster-ref list"
}
