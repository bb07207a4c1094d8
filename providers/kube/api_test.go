package kube_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/kube"
)

// bearer is the accepted token.
const bearer = "let-me-in"

// cluster is the part of a Kubernetes API that the package uses, over TLS. Authentication, answers
// and their bodies are like the real ones. `make e2e-kube` tests the rest with the real one.
type cluster struct {
	*httptest.Server
	ca []byte // PEM

	mu      sync.Mutex
	secrets map[string]*corev1.Secret // of kube-system
	info    *corev1.ConfigMap
	nodes   map[string]*corev1.Node
	pods    map[string]*corev1.Pod      // by namespace/name
	budget  map[string]string           // pods protected by a budget of that name
	refused map[string]metav1.CauseType // pods whose eviction is forbidden, with the cause, which may be empty
	dawdle  time.Duration               // before an eviction
	calls   []string                    // changes, in order
	open    atomic.Int32                // connections
	uid     int
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{secrets: map[string]*corev1.Secret{}, nodes: map[string]*corev1.Node{}, pods: map[string]*corev1.Pod{},
		budget: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/kube-public/configmaps/cluster-info", c.clusterInfo)
	mux.HandleFunc("GET /api/v1/namespaces/kube-system/secrets/{name}", c.getSecret)
	mux.HandleFunc("POST /api/v1/namespaces/kube-system/secrets", c.postSecret)
	mux.HandleFunc("DELETE /api/v1/namespaces/kube-system/secrets/{name}", c.deleteSecret)
	mux.HandleFunc("GET /api/v1/nodes", c.listNodes)
	mux.HandleFunc("GET /api/v1/nodes/{name}", c.getNode)
	mux.HandleFunc("PATCH /api/v1/nodes/{name}", c.patchNode)
	mux.HandleFunc("GET /api/v1/pods", c.listPods)
	mux.HandleFunc("POST /api/v1/namespaces/{ns}/pods/{name}/eviction", c.evict)
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+bearer {
			refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized", nil)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	c.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			c.open.Add(1)
		case http.StateClosed:
			c.open.Add(-1)
		}
	}
	c.StartTLS()
	t.Cleanup(c.Close)
	c.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw})
	c.info = c.publish(c.URL, c.ca)
	return c
}

// publish returns the public information of a cluster.
func (c *cluster) publish(server string, ca []byte) *corev1.ConfigMap {
	return &corev1.ConfigMap{Data: map[string]string{"kubeconfig": fmt.Sprintf("apiVersion: v1\nkind: "+
		"Config\nclusters:\n- name: \"\"\n  cluster: {server: %q, certificate-authority-data: %s}\n",
		server, quoted(ca))}}
}

// quoted returns bytes as in YAML and JSON: base64.
func quoted(b []byte) string {
	out, _ := json.Marshal(b)
	return string(out)
}

func kubeconfig(server string, ca []byte, user string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: it
contexts: [{name: it, context: {cluster: it, user: it}}]
clusters: [{name: it, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: it, user: %s}]
`, server, quoted(ca), user)
}

// Cluster is a kube.Clusters with one cluster, "prod".
func (c *cluster) Cluster(_ context.Context, _ providers.Machine, ref string) (kube.Registered, error) {
	if ref != "prod" {
		return kube.Registered{}, &providers.NotAsked{Reason: providers.ClusterNotRegistered,
			Err: fmt.Errorf("cluster %q is not registered", ref)}
	}
	return kube.Registered{Kubeconfig: kubeconfig(c.URL, c.ca, "{token: "+bearer+"}"),
		CertificateKey: strings.Repeat("ab", 32), Version: "1"}, nil
}

// with changes the contents of the API.
func (c *cluster) with(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *cluster) changed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.calls...)
}

func (c *cluster) nextUID() types.UID {
	c.uid++
	return types.UID(fmt.Sprint("uid-", c.uid))
}

func answer(w http.ResponseWriter, kind string, v any) {
	body, _ := json.Marshal(v)
	var typed map[string]any
	_ = json.Unmarshal(body, &typed)
	typed["apiVersion"], typed["kind"] = "v1", kind
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(typed)
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string, causes []metav1.StatusCause) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status: "Failure", Code: int32(code), Reason: reason, Message: message,
		Details: &metav1.StatusDetails{Causes: causes}})
}

func missing(w http.ResponseWriter, what, name string) {
	refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s %q not found", what, name), nil)
}

func (c *cluster) clusterInfo(w http.ResponseWriter, _ *http.Request) {
	if c.info == nil {
		missing(w, "configmaps", "cluster-info")
		return
	}
	answer(w, "ConfigMap", c.info)
}

func (c *cluster) getSecret(w http.ResponseWriter, r *http.Request) {
	if s := c.secrets[r.PathValue("name")]; s != nil {
		answer(w, "Secret", s)
		return
	}
	missing(w, "secrets", r.PathValue("name"))
}

func (c *cluster) postSecret(w http.ResponseWriter, r *http.Request) {
	var s corev1.Secret
	if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error(), nil)
		return
	}
	if c.secrets[s.Name] != nil {
		refuse(w, http.StatusConflict, metav1.StatusReasonAlreadyExists, fmt.Sprintf("secrets %q already exists", s.Name),
			nil)
		return
	}
	s.Data = map[string][]byte{}
	for k, v := range s.StringData {
		s.Data[k] = []byte(v)
	}
	s.StringData, s.UID = nil, c.nextUID()
	c.secrets[s.Name] = &s
	c.calls = append(c.calls, "create "+string(s.Type))
	answer(w, "Secret", &s)
}

func (c *cluster) deleteSecret(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	s := c.secrets[name]
	if s == nil {
		missing(w, "secrets", name)
		return
	}
	var o metav1.DeleteOptions
	_ = json.NewDecoder(r.Body).Decode(&o)
	if o.Preconditions != nil && *o.Preconditions.UID != s.UID {
		refuse(w, http.StatusConflict, metav1.StatusReasonConflict, "the UID in the precondition does not match", nil)
		return
	}
	delete(c.secrets, name)
	c.calls = append(c.calls, "delete "+string(s.Type))
	answer(w, "Status", metav1.Status{Status: "Success"})
}

func (c *cluster) listNodes(w http.ResponseWriter, _ *http.Request) {
	var l corev1.NodeList
	for _, n := range c.nodes {
		l.Items = append(l.Items, *n)
	}
	answer(w, "NodeList", &l)
}

func (c *cluster) getNode(w http.ResponseWriter, r *http.Request) {
	if n := c.nodes[r.PathValue("name")]; n != nil {
		answer(w, "Node", n)
		return
	}
	missing(w, "nodes", r.PathValue("name"))
}

func (c *cluster) patchNode(w http.ResponseWriter, r *http.Request) {
	n := c.nodes[r.PathValue("name")]
	body, _ := io.ReadAll(r.Body)
	var p corev1.Node
	switch {
	case n == nil:
		missing(w, "nodes", r.PathValue("name"))
	case json.Unmarshal(body, &p) != nil || r.Header.Get("Content-Type") != "application/strategic-merge-patch+json":
		refuse(w, http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "want a strategic merge patch",
			nil)
	case p.UID != n.UID:
		refuse(w, http.StatusConflict, metav1.StatusReasonConflict, "the UID does not match", nil)
	default:
		n.Spec.Unschedulable = p.Spec.Unschedulable
		c.calls = append(c.calls, fmt.Sprintf("cordon %s %t", n.Name, n.Spec.Unschedulable))
		answer(w, "Node", n)
	}
}

func (c *cluster) listPods(w http.ResponseWriter, r *http.Request) {
	var l corev1.PodList
	for _, p := range c.pods {
		if "spec.nodeName="+p.Spec.NodeName == r.URL.Query().Get("fieldSelector") {
			l.Items = append(l.Items, *p)
		}
	}
	answer(w, "PodList", &l)
}

// evict answers like the real API if a disruption budget allows no eviction.
func (c *cluster) evict(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("ns") + "/" + r.PathValue("name")
	select {
	case <-time.After(c.dawdle):
	case <-r.Context().Done():
	}
	if c.pods[name] == nil {
		missing(w, "pods", name)
		return
	}
	if cause, refused := c.refused[name]; refused {
		var causes []metav1.StatusCause
		if cause != "" {
			causes = []metav1.StatusCause{{Type: cause, Message: "namespace is being terminated"}}
		}
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "eviction is forbidden", causes)
		return
	}
	if b := c.budget[name]; b != "" {
		refuse(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests,
			"Cannot evict pod as it would violate the pod's disruption budget.",
			[]metav1.StatusCause{{Type: "DisruptionBudget",
				Message: fmt.Sprintf("The disruption budget %s needs 1 healthy pods and has 1 currently", b)}})
		return
	}
	delete(c.pods, name)
	c.calls = append(c.calls, "evict "+name)
	answer(w, "Status", metav1.Status{Status: "Success"})
}
