package kube

import (
	_ "embed"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed join.sh
var joinScript string

// joining is what kubeadm is told.
type joining struct {
	Cluster        string
	Node           string
	ProviderID     string
	Server         string   // host:port
	Hashes         []string // of the CA
	Token          string
	CertificateKey string // of a control plane
	Known          bool   // the cluster has the machine's node already; of a control plane: and it is one
}

// script returns what runs on the host. What is secret is in a document within it: it is on no
// command line, and in no environment.
func (c *joining) script() (string, error) {
	conf := map[string]any{
		"apiVersion": "kubeadm.k8s.io/v1beta4",
		"kind":       "JoinConfiguration",
		"nodeRegistration": map[string]any{
			"name":             c.Node,
			"kubeletExtraArgs": []any{map[string]any{"name": "provider-id", "value": c.ProviderID}},
		},
		"discovery": map[string]any{"bootstrapToken": map[string]any{"apiServerEndpoint": c.Server, "token": c.Token, "caCertHashes": c.Hashes}},
	}
	if c.CertificateKey != "" {
		conf["controlPlane"] = map[string]any{"certificateKey": c.CertificateKey}
	}
	doc, err := yaml.Marshal(conf)
	if err != nil {
		return "", fmt.Errorf("write what kubeadm reads: %w", err)
	}
	known, as := "", "node"
	if c.Known {
		known = "yes"
	}
	if c.CertificateKey != "" {
		as = "control plane"
	}
	head := fmt.Sprintf("cluster=%s\nknown=%s\nas=%s\n", quote(c.Cluster), quote(known), quote(as))
	return head + strings.Replace(joinScript, "@CONFIGURATION@\n", string(doc), 1), nil
}

// quote makes text one word of a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
