package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/guard"
)

// Registered is a cluster as somebody has registered it.
type Registered struct {
	Kubeconfig     []byte
	CertificateKey string // opens the certificates that control planes share; empty where only workers join
	Version        string // another one: the values are others
}

// Clusters finds clusters that were registered. The error of one that was not is a
// providers.NotAsked with reason providers.ClusterNotRegistered.
type Clusters interface {
	Cluster(ctx context.Context, m providers.Machine, ref string) (Registered, error)
}

// Host is what is needed of hosts.
type Host interface {
	providers.RemoteExecutor
}

// Joiner drives nodes. It is safe for concurrent use. Close it.
type Joiner struct {
	clusters Clusters
	host     Host

	mu      sync.Mutex
	apis    map[string]*api   // by ref
	scripts map[string]script // of joins that were prepared and not started, by the attempt's token
}

// New returns a Joiner. It connects to nothing before it is asked something.
func New(c Clusters, h Host) *Joiner {
	return &Joiner{clusters: c, host: h, apis: map[string]*api{}, scripts: map[string]script{}}
}

// Close closes the connections that nobody uses.
func (j *Joiner) Close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for ref, a := range j.apis {
		a.client.Client.CloseIdleConnections()
		delete(j.apis, ref)
	}
}

// api is the API of one cluster.
type api struct {
	ref     string
	version string
	server  string
	ca      []byte // PEM
	certKey string
	client  *rest.RESTClient

	mu    sync.Mutex
	nodes *directory // of all nodes, of a moment ago
}

// api returns the API of a cluster, and another one when what was registered has changed.
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
		old.client.Client.CloseIdleConnections()
	}
	a := &api{ref: ref, version: r.Version, server: cfg.Host, ca: cfg.CAData, certKey: r.CertificateKey, client: client}
	j.apis[ref] = a
	return a, nil
}

// Parse reads a kubeconfig that has in it all that it takes to reach a cluster. What would read
// files of the peer or run programs there is refused, and so is a cluster without its CA: hosts are
// told its fingerprint. No error shows a value.
func Parse(kubeconfig []byte) (*rest.Config, error) {
	c, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, errors.New("read kubeconfig: it is no kubeconfig: want YAML as kubectl config view --raw --flatten --minify prints it") // the parser quotes what it reads
	}
	at := c.Contexts[c.CurrentContext]
	if at == nil {
		return nil, errors.New("read kubeconfig: its current-context names no context in it")
	}
	cluster, user := c.Clusters[at.Cluster], c.AuthInfos[at.AuthInfo]
	if cluster == nil || user == nil {
		return nil, errors.New("read kubeconfig: its current context names a cluster or a user that is not in it")
	}
	switch {
	case user.Exec != nil || user.AuthProvider != nil:
		return nil, errors.New("read kubeconfig: its user logs in by a program (exec or auth-provider): peers run none, give it a client certificate or a token")
	case user.ClientCertificate != "" || user.ClientKey != "" || user.TokenFile != "" || cluster.CertificateAuthority != "":
		return nil, errors.New("read kubeconfig: it names files: put what is in them into it, with kubectl config view --raw --flatten --minify")
	case cluster.InsecureSkipTLSVerify || len(cluster.CertificateAuthorityData) == 0:
		return nil, errors.New("read kubeconfig: its cluster has no certificate-authority-data: nobody could tell the real one from another")
	}
	cfg, err := clientcmd.NewDefaultClientConfig(*c, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, errors.New("read kubeconfig: it is not complete: want a cluster with a server, and a user with a client certificate or a token")
	}
	return cfg, nil
}

// connect makes a client of the core API whose effects leave in time or not at all. It asks nothing
// yet.
func connect(cfg *rest.Config) (*rest.RESTClient, error) {
	cfg = rest.CopyConfig(cfg)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, policyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("prepare to speak to Kubernetes: %w", err)
		}
	}
	cfg.APIPath, cfg.GroupVersion = "/api", &corev1.SchemeGroupVersion
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	cfg.ContentType, cfg.UserAgent = runtime.ContentTypeJSON, "holdfast"
	cfg.QPS, cfg.Burst = 100, 200
	tls, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, errors.New("read kubeconfig: its certificates or keys are none")
	}
	plain := &http.Transport{
		Proxy: cfg.Proxy, TLSClientConfig: tls, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 16,
		DialContext: (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
	}
	rt, err := rest.HTTPWrappersForConfig(cfg, guard.Transport(plain))
	if err != nil {
		return nil, errors.New("read kubeconfig: its user's credentials contradict each other")
	}
	client, err := rest.RESTClientForConfigAndClient(cfg, &http.Client{Transport: rt, Timeout: callTime})
	if err != nil {
		return nil, errors.New("read kubeconfig: its server is no address")
	}
	return client, nil
}

// callTime bounds one call.
const callTime = 30 * time.Second
