package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/guard"
)

// Registered is a registered cluster.
type Registered struct {
	Kubeconfig     []byte
	CertificateKey string // decrypts the control planes' shared certificates; may be empty for workers
	Version        string // changes with the other fields
}

// Clusters finds registered clusters. The error for a cluster that is not registered is a
// providers.NotAsked with reason providers.ClusterNotRegistered.
type Clusters interface {
	Cluster(ctx context.Context, m providers.Machine, ref string) (Registered, error)
}

// Joiner drives nodes. It is safe for concurrent use, and must be closed.
type Joiner struct {
	clusters Clusters
	host     providers.RemoteExecutor

	mu      sync.Mutex
	apis    map[string]*api   // by ref
	scripts map[string]script // prepared joins that were not started, by the attempt's token
}

// New returns a Joiner. It opens no connection before the first call.
func New(c Clusters, h providers.RemoteExecutor) *Joiner {
	return &Joiner{clusters: c, host: h, apis: map[string]*api{}, scripts: map[string]script{}}
}

// Close closes idle connections.
func (j *Joiner) Close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for ref, a := range j.apis {
		a.closeIdle()
		delete(j.apis, ref)
	}
}

// api is the client of one cluster.
type api struct {
	ref     string
	version string
	server  string
	ca      []byte // PEM
	certKey string
	client  *rest.RESTClient

	mu    sync.Mutex
	nodes *directory // of all nodes, cached
}

// closeIdle closes idle connections. The transport is below those that add credentials, where
// http.Client does not find it.
func (a *api) closeIdle() { utilnet.CloseIdleConnectionsFor(a.client.Client.Transport) }

// api returns the client of a cluster. If the registration has changed, it creates a new one.
func (j *Joiner) api(ctx context.Context, m providers.Machine, ref string) (*api, error) {
	op := "open cluster " + ref
	r, err := j.clusters.Cluster(ctx, m, ref)
	if err != nil {
		return nil, classify(op, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if a := j.apis[ref]; a != nil && a.version == r.Version {
		return a, nil
	}
	cfg, err := Parse(r.Kubeconfig)
	if err != nil {
		return nil, providers.Errorf(providers.Unsupported, op, "%w", err)
	}
	client, err := connect(cfg)
	if err != nil {
		return nil, providers.Errorf(providers.Unsupported, op, "%w", err)
	}
	if old := j.apis[ref]; old != nil {
		old.closeIdle()
	}
	a := &api{
		ref:     ref,
		version: r.Version,
		server:  cfg.Host,
		ca:      cfg.CAData,
		certKey: r.CertificateKey,
		client:  client,
	}
	j.apis[ref] = a
	return a, nil
}

// Parse parses a kubeconfig that must be self-contained. It refuses one that would read files of
// the peer or run programs there, and one without the CA of the cluster, because joins need its
// fingerprint. Its errors contain no values.
func Parse(kubeconfig []byte) (*rest.Config, error) {
	c, err := clientcmd.Load(kubeconfig)
	if err != nil { // the parser's error would quote its input
		return nil, errors.New("read kubeconfig: it is not a kubeconfig: " +
			"want YAML as printed by kubectl config view --raw --flatten --minify")
	}
	at := c.Contexts[c.CurrentContext]
	if at == nil {
		return nil, errors.New("read kubeconfig: current-context names an unknown context")
	}
	cluster, user := c.Clusters[at.Cluster], c.AuthInfos[at.AuthInfo]
	if cluster == nil || user == nil {
		return nil, errors.New("read kubeconfig: the current context names an unknown cluster or user")
	}
	switch {
	case user.Exec != nil || user.AuthProvider != nil:
		return nil, errors.New("read kubeconfig: its user logs in with a program (exec or " +
			"auth-provider), which peers do not run: use a client certificate or a token")
	case user.ClientCertificate != "" || user.ClientKey != "" || user.TokenFile != "",
		cluster.CertificateAuthority != "":
		return nil, errors.New("read kubeconfig: it refers to files: " +
			"include their contents with kubectl config view --raw --flatten --minify")
	case cluster.InsecureSkipTLSVerify || len(cluster.CertificateAuthorityData) == 0:
		return nil, errors.New("read kubeconfig: its cluster has no certificate-authority-data: " +
			"without it the cluster's identity cannot be verified")
	}
	cfg, err := clientcmd.NewDefaultClientConfig(*c, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, errors.New("read kubeconfig: it is incomplete: " +
			"want a cluster with a server, and a user with a client certificate or a token")
	}
	return cfg, nil
}

// connect returns a client of the core API that sends effects in time or not at all. It sends no
// request yet.
func connect(cfg *rest.Config) (*rest.RESTClient, error) {
	cfg = rest.CopyConfig(cfg)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, policyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("set up the Kubernetes client: %w", err)
		}
	}
	cfg.APIPath, cfg.GroupVersion = "/api", &corev1.SchemeGroupVersion
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	cfg.ContentType, cfg.UserAgent = runtime.ContentTypeJSON, "holdfast"
	cfg.QPS, cfg.Burst = 100, 200
	tls, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, errors.New("read kubeconfig: its certificates or keys are invalid")
	}
	plain := &http.Transport{
		Proxy:               cfg.Proxy,
		TLSClientConfig:     tls,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     time.Minute,
		MaxIdleConnsPerHost: 16,
	}
	rt, err := rest.HTTPWrappersForConfig(cfg, guard.Transport(plain))
	if err != nil {
		return nil, errors.New("read kubeconfig: its user's credentials contradict each other")
	}
	client, err := rest.RESTClientForConfigAndClient(cfg, &http.Client{Transport: rt, Timeout: callTime})
	if err != nil {
		return nil, errors.New("read kubeconfig: its server is not a valid address")
	}
	return client, nil
}

// callTime bounds one call.
const callTime = 30 * time.Second
