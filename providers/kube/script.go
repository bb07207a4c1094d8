package kube

import (
	_ "embed"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed join.sh
var joinScript string

// joining has the parameters of kubeadm.
type joining struct {
	Cluster        string
	Node           string
	ProviderID     string
	Server         string   // host:port
	Hashes         []string // of the CA
	Token          string
	CertificateKey string // of a control plane
	Known          bool   // the node exists already; for a control plane: and it is one
}

// script returns the script for the host. Its secrets are in a document within it, and so neither
// on a command line nor in an environment.
func (c *joining) script() (string, error) {
	conf := map[string]any{
		"apiVersion": "kubeadm.k8s.io/v1beta4",
		"kind":       "JoinConfiguration",
		"nodeRegistration": map[string]any{
			"name":             c.Node,
			"kubeletExtraArgs": []any{map[string]any{"name": "provider-id", "value": c.ProviderID}},
		},
		"discovery": map[string]any{"bootstrapToken": map[string]any{
			"apiServerEndpoint": c.Server,
			"token":             c.Token,
			"caCertHashes":      c.Hashes,
		}},
	}
	if c.CertificateKey != "" {
		conf["controlPlane"] = map[string]any{"certificateKey": c.CertificateKey}
	}
	doc, err := yaml.Marshal(conf)
	if err != nil {
		return "", fmt.Errorf("encode the configuration of kubeadm: %w", err)
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

// quote returns s as one word of a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
