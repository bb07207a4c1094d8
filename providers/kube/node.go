package kube

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/holdfast-metal/holdfast/providers"
)

// providerScheme is the prefix of the provider ids that joins set: holdfast://MACHINE.
const providerScheme = "holdfast://"

// NodeNames returns the names that a machine's node may have: its host name, the host name that its
// agent reports, and its id. A join uses the first one.
func NodeNames(m providers.Machine) []string {
	var names []string
	for _, name := range []string{m.GetNode().GetHostname(), m.GetAgent().GetHostname(), m.GetMachineId()} {
		name = strings.ToLower(name)
		if name != "" && !slices.Contains(names, name) && len(validation.IsDNS1123Subdomain(name)) == 0 {
			names = append(names, name)
		}
	}
	return names
}

// owner reports whether a node is proved to be the machine's. If it is another machine's, other is
// the reason. If neither is set, only its name is known.
func owner(m providers.Machine, n *corev1.Node) (ours bool, other string) {
	if id, ok := strings.CutPrefix(n.Spec.ProviderID, providerScheme); ok {
		if id == m.GetMachineId() {
			return true, ""
		}
		return false, fmt.Sprintf("node %s belongs to machine %s (its provider id is %s)",
			n.Name, clip(id), clip(n.Spec.ProviderID))
	}
	has, want := canonUUID(n.Status.NodeInfo.SystemUUID), uuids(m)
	switch {
	case has == "" || len(want) == 0:
		return false, ""
	case slices.Contains(want, has) || slices.Contains(want, swapped(has)):
		return true, ""
	}
	return false, fmt.Sprintf("node %s has system UUID %s, and machine %s has %s",
		n.Name, has, m.GetMachineId(), want[0])
}

// machineAnnotation on a node names its machine. An administrator of the cluster sets it.
const machineAnnotation = "holdfast/machine"

// owned reports whether a node is proved to be the machine's, by something that neither the
// machine's agent nor an operator of its pool can write: the provider id set by the join, an
// annotation in the cluster, or the system UUID that the BMC reports. Only then are pods evicted: a
// host that reports another host's name or UUID must not be able to choose that host's node.
func owned(m providers.Machine, n *corev1.Node) bool {
	if id, ok := strings.CutPrefix(n.Spec.ProviderID, providerScheme); ok {
		return id == m.GetMachineId()
	}
	if id, ok := n.Annotations[machineAnnotation]; ok {
		return id == m.GetMachineId()
	}
	has, want := canonUUID(n.Status.NodeInfo.SystemUUID), canonUUID(m.GetHardware().GetUuid())
	return has != "" && want != "" && (has == want || swapped(has) == want)
}

// uuids returns the known system UUIDs of the machine, from the host and from its BMC.
func uuids(m providers.Machine) []string {
	var all []string
	for _, u := range []string{m.GetNode().GetSystemUuid(), m.GetHardware().GetUuid()} {
		if u = canonUUID(u); u != "" && !slices.Contains(all, u) {
			all = append(all, u)
		}
	}
	return all
}

// canonUUID returns a UUID in canonical form. It returns "" for an invalid UUID, and for the ones
// of boards on which it was never set.
func canonUUID(s string) string {
	b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(s), "-", ""))
	if err != nil || len(b) != 16 {
		return ""
	}
	h := hex.EncodeToString(b)
	if strings.Count(h, h[:1]) == len(h) {
		return ""
	}
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// swapped returns a UUID with its first three fields in the other byte order. SMBIOS has them
// little-endian since 2.6, but not all readers expect that.
func swapped(u string) string {
	b, err := hex.DecodeString(strings.ReplaceAll(u, "-", ""))
	if err != nil || len(b) != 16 {
		return u
	}
	slices.Reverse(b[:4])
	slices.Reverse(b[4:6])
	slices.Reverse(b[6:8])
	return canonUUID(hex.EncodeToString(b))
}

// directory finds nodes by provider id and system UUID.
type directory struct {
	at     time.Time
	byID   map[string]string // provider id to name
	byUUID map[string]string
}

// directoryAge is the maximum age of the list of all nodes, which is used for nodes that have none
// of the machine's names.
const directoryAge = 5 * time.Second

func (a *api) directory(ctx context.Context) (*directory, error) {
	a.mu.Lock()
	defer a.mu.Unlock() // concurrent callers share the list
	if a.nodes != nil && time.Since(a.nodes.at) < directoryAge {
		return a.nodes, nil
	}
	d := &directory{at: time.Now(), byID: map[string]string{}, byUUID: map[string]string{}}
	for token := ""; ; {
		var list corev1.NodeList
		r := a.client.Get().Resource("nodes").Param("limit", "500")
		if token != "" {
			r.Param("continue", token)
		}
		if err := r.Do(ctx).Into(&list); err != nil {
			return nil, err
		}
		for i := range list.Items {
			n := &list.Items[i]
			if id := n.Spec.ProviderID; id != "" {
				d.byID[id] = n.Name
			}
			if u := canonUUID(n.Status.NodeInfo.SystemUUID); u != "" {
				d.byUUID[u] = n.Name
			}
		}
		if token = list.Continue; token == "" {
			a.nodes = d
			return d, nil
		}
	}
}

// node returns the machine's node, or nil. A node that only has the machine's name counts if no
// other node is proved to be the machine's. other is the reason why a node of that name belongs to
// another machine.
func (a *api) node(ctx context.Context, m providers.Machine) (n *corev1.Node, other string, err error) {
	var named *corev1.Node
	for _, name := range NodeNames(m) {
		n, err := a.get(ctx, name)
		if err != nil {
			return nil, "", err
		}
		if n == nil {
			continue
		}
		switch ours, why := owner(m, n); {
		case ours:
			return n, "", nil
		case why != "":
			other = why
		case named == nil:
			named = n
		}
	}
	d, err := a.directory(ctx)
	if err != nil {
		return nil, "", err
	}
	names := []string{d.byID[providerScheme+m.GetMachineId()]}
	for _, u := range uuids(m) {
		names = append(names, d.byUUID[u], d.byUUID[swapped(u)])
	}
	for _, name := range names {
		if name == "" {
			continue
		}
		n, err := a.get(ctx, name)
		if err != nil {
			return nil, "", err
		}
		if n == nil {
			continue // deleted since the list was read
		}
		if ours, _ := owner(m, n); ours {
			return n, "", nil
		}
	}
	if named != nil {
		return named, "", nil
	}
	return nil, other, nil
}

// get reads a node. It returns nil if there is none.
func (a *api) get(ctx context.Context, name string) (*corev1.Node, error) {
	n := &corev1.Node{}
	err := a.client.Get().Resource("nodes").Name(name).Do(ctx).Into(n)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return n, err
}
