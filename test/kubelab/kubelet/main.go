//go:build linux

// Command kubelet is a stand-in for the kubelet on a host of the lab. It does what a
// cluster observes of a kubelet. It exchanges kubeadm's bootstrap credentials for its own
// certificate (with a signing request, like the real one), registers the node, reports its
// conditions, and removes pods that are to end. On a control plane it also stands in for
// the API server of kubeadm's manifest, by forwarding to the cluster's.
//
// It writes /etc/kubernetes/kubelet.conf and runs no container. Only the tests of kubelab
// may use it.
package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	bootstrapConf = "/etc/kubernetes/bootstrap-kubelet.conf"
	ownConf       = "/etc/kubernetes/kubelet.conf"
	flagsFile     = "/var/lib/kubelet/kubeadm-flags.env"
	every         = 500 * time.Millisecond
)

func main() {
	dir := flag.String("dir", "", "directory with uuid, and ready when the node is to be Ready")
	flag.Parse()
	log.Fatal(run(context.Background(), *dir)) // it runs until it fails
}

func run(ctx context.Context, dir string) error {
	go health()
	if err := standInForAPI(); err != nil {
		return err
	}
	args, err := arguments()
	if err != nil {
		return err
	}
	name := args["--hostname-override"]
	if name == "" { // kubeadm omits it if the host has the node's name
		if name, err = os.Hostname(); err != nil {
			return err
		}
	}
	cfg, err := credentials(ctx, name)
	if err != nil {
		return err
	}
	a, err := dial(cfg)
	if err != nil {
		return err
	}
	if err := a.register(ctx, dir, name, args["--provider-id"]); err != nil {
		return err
	}
	for {
		if err := a.report(ctx, dir, name); err != nil {
			log.Print(err)
		}
		if err := a.endPods(ctx, name); err != nil {
			log.Print(err)
		}
		time.Sleep(every) // sleep: the time between two reports
	}
}

// health serves the health check that kubeadm uses.
func health() {
	s := &http.Server{
		Addr:              "127.0.0.1:10248",
		ReadHeaderTimeout: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_,
				_ = io.WriteString(w, "ok")
		}),
	}
	log.Print(s.ListenAndServe())
}

// arguments reads the arguments that kubeadm has set for the kubelet.
func arguments() (map[string]string, error) {
	b, err := os.ReadFile(flagsFile)
	if err != nil {
		return nil, err
	}
	_, line, _ := strings.Cut(strings.TrimSpace(string(b)), "=")
	args := map[string]string{}
	for word := range strings.FieldsSeq(strings.Trim(line, `"`)) {
		k, v, _ := strings.Cut(word, "=")
		args[k] = v
	}
	return args, nil
}

// credentials returns the node's own credentials. If there are none yet, it exchanges the
// bootstrap token for them.
func credentials(ctx context.Context, name string) (*rest.Config, error) {
	if _, err := os.Stat(ownConf); err == nil {
		return clientcmd.BuildConfigFromFlags("", ownConf)
	}
	boot, err := clientcmd.BuildConfigFromFlags("", bootstrapConf)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	subject := pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	if err != nil {
		return nil, err
	}
	a, err := dial(boot)
	if err != nil {
		return nil, err
	}
	request := certv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{GenerateName: "node-csr-"},
		Spec: certv1.CertificateSigningRequestSpec{Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST",
			Bytes: csr}),
			SignerName: certv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certv1.KeyUsage{certv1.UsageDigitalSignature, certv1.UsageClientAuth}},
	}
	const requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	if err := a.do(ctx, http.MethodPost, requests, "", request, &request); err != nil {
		return nil, err
	}
	for len(request.Status.Certificate) == 0 {
		time.Sleep(every / 5) // sleep: between two polls for the signature; kubeadm gives up eventually
		if err := a.do(ctx, http.MethodGet, requests+"/"+request.Name, "", nil, &request); err != nil {
			return nil, err
		}
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	conf := clientcmdapi.NewConfig()
	conf.Clusters["it"] = &clientcmdapi.Cluster{Server: boot.Host, CertificateAuthorityData: boot.CAData}
	conf.AuthInfos["it"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: request.Status.Certificate,
		ClientKeyData:         pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
	}
	conf.Contexts["it"] = &clientcmdapi.Context{Cluster: "it", AuthInfo: "it"}
	conf.CurrentContext = "it"
	if err := clientcmd.WriteToFile(*conf, ownConf); err != nil {
		return nil, err
	}
	return clientcmd.BuildConfigFromFlags("", ownConf)
}

// api is a client of the API server.
type api struct {
	base string
	http *http.Client
}

func dial(cfg *rest.Config) (*api, error) {
	c, err := rest.HTTPClientFor(cfg)
	return &api{cfg.Host, c}, err
}

func (a *api) do(ctx context.Context, method, path, contentType string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(ctx, method, a.base+path, body)
	if err != nil {
		return err
	}
	if contentType == "" {
		contentType = "application/json"
	}
	r.Header.Set("Content-Type", contentType)
	res, err := a.http.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %d %s", method, path, res.StatusCode, b)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(b, out)
}

func (a *api) register(ctx context.Context, dir, name, providerID string) error {
	n := corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}},
		Spec:       corev1.NodeSpec{ProviderID: providerID}}
	if err := a.do(ctx, http.MethodPost, "/api/v1/nodes", "", n, nil); err != nil &&
		!strings.Contains(err.Error(), "AlreadyExists") {
		return err
	}
	return a.report(ctx, dir, name)
}

// report reports the node's properties, and whether it is Ready.
func (a *api) report(ctx context.Context, dir, name string) error {
	uuid, err := os.ReadFile(filepath.Join(dir, "uuid"))
	if err != nil {
		return err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	ready := corev1.NodeCondition{
		Type:              corev1.NodeReady,
		Status:            corev1.ConditionFalse,
		Reason:            "KubeletNotReady",
		Message:           "cni plugin not initialized",
		LastHeartbeatTime: metav1.Now(),
	}
	if _, err := os.Stat(filepath.Join(dir, "ready")); err == nil {
		ready.Status, ready.Reason, ready.Message = corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"
	}
	status := corev1.NodeStatus{Conditions: []corev1.NodeCondition{ready},
		NodeInfo: corev1.NodeSystemInfo{
			SystemUUID:     strings.TrimSpace(string(uuid)),
			BootID:         strings.TrimSpace(string(boot)),
			KubeletVersion: "v1.36.3",
		}}
	return a.do(ctx, http.MethodPatch, "/api/v1/nodes/"+name+"/status", "application/strategic-merge-patch+json",
		map[string]any{"status": status}, nil)
}

// endPods removes pods that are to end. Nothing runs in them, so it need not wait.
func (a *api) endPods(ctx context.Context, name string) error {
	var pods corev1.PodList
	if err := a.do(
		ctx, http.MethodGet, "/api/v1/pods?fieldSelector=spec.nodeName%3D"+name, "", nil, &pods,
	); err != nil {
		return err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.DeletionTimestamp == nil {
			continue
		}
		if err := a.do(
			ctx, http.MethodDelete, "/api/v1/namespaces/"+p.Namespace+"/pods/"+p.Name, "",
			metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, nil,
		); err != nil {
			return err
		}
	}
	return nil
}
