package kube

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"net"
	"net/url"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/holdfast-metal/holdfast/providers"
)

// discovery returns the address of the cluster for hosts, and the fingerprints of its CA. Both come
// from the config map cluster-info in kube-public. Only CAs of the registered kubeconfig count.
func (a *api) discovery(ctx context.Context) (server string, hashes []string, err error) {
	op := "read cluster-info of " + a.ref
	var cm corev1.ConfigMap
	err = a.client.Get().Namespace("kube-public").Resource("configmaps").Name("cluster-info").Do(ctx).Into(&cm)
	if apierrors.IsNotFound(err) {
		return "", nil, providers.Errorf(providers.Unsupported, op, "the cluster has none, and kubeadm "+
			"needs it: run kubeadm init phase bootstrap-token on a control plane")
	}
	if err != nil {
		return "", nil, err
	}
	c, err := clientcmd.Load([]byte(cm.Data["kubeconfig"]))
	if err != nil {
		return "", nil, providers.Errorf(providers.Unsupported, op, "its kubeconfig is invalid")
	}
	var info *clientcmdapi.Cluster
	for _, one := range c.Clusters {
		info = one // there is only one
	}
	if info == nil {
		return "", nil, providers.Errorf(providers.Unsupported, op, "its kubeconfig names no cluster")
	}
	if server, err = address(info.Server); err != nil {
		return "", nil, providers.Errorf(providers.Unsupported, op,
			"its server %q is not a valid address", clip(info.Server))
	}
	registered, published := fingerprints(a.ca), fingerprints(info.CertificateAuthorityData)
	for _, h := range published {
		if slices.Contains(registered, h) {
			hashes = append(hashes, h)
		}
	}
	if len(hashes) == 0 {
		return "", nil, providers.Errorf(providers.Unsupported, op, "its CA differs from the CA of the "+
			"registered kubeconfig: one of them is outdated, or belongs to another cluster")
	}
	return server, hashes, nil
}

// address returns the host:port of a server's URL.
func address(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" {
		return "", url.InvalidHostError(server)
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")), nil
}

// fingerprints returns the hashes of the certificates' public keys in kubeadm's format (RFC 7469
// §2.4, in hex).
func fingerprints(bundle []byte) []string {
	var hashes []string
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		h := sha256.Sum256(c.RawSubjectPublicKeyInfo)
		hashes = append(hashes, "sha256:"+hex.EncodeToString(h[:]))
	}
	return hashes
}
