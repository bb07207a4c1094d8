//go:build linux

package kubelab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-metal/holdfast/cluster/freeport"
	"github.com/holdfast-metal/holdfast/test/bmclab/proc"
)

// patience bounds a test's wait for one event, because machines are busy.
const patience = 2 * time.Minute

// Plane is a control plane of one machine. It ends with the test.
type Plane struct {
	t       testing.TB
	bin     string // directory of its programs
	dir     string
	etcd    [2]string // clients, peers
	addr    string    // of the API
	api     *proc.Process
	starter *proc.Starter
	admin   *rest.Config
	http    *http.Client
}

// kubeadmConfig is kubeadm's configuration of the cluster.
const kubeadmConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: %[1]s, bindPort: %[2]s}
nodeRegistration: {criSocket: unix:///run/containerd/containerd.sock, name: cp0}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: %[3]s
clusterName: lab
controlPlaneEndpoint: %[1]s:%[2]s
certificatesDir: %[4]s
etcd: {external: {endpoints: ["%[5]s"]}}
networking: {podSubnet: 10.200.0.0/16, serviceSubnet: 10.201.0.0/16}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
`

// StartPlane starts a control plane like one set up by kubeadm.
func StartPlane(t testing.TB, bin, dir string) *Plane {
	t.Helper()
	ip, err := ownAddress()
	if err != nil {
		t.Fatal(err)
	}
	ports, err := freeport.Claim(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ports.Release() })
	p := &Plane{t: t, bin: bin, dir: dir, starter: proc.NewStarter()}
	p.etcd = [2]string{"http://" + ports.Address("127.0.0.1"), "http://" + ports.Address("127.0.0.1")}
	t.Cleanup(p.starter.Close)
	p.addr = ports.Address(ip)
	_, port, _ := net.SplitHostPort(p.addr)
	p.write("init.yaml", fmt.Sprintf(kubeadmConfig, ip, port, version, p.path("pki"), p.etcd[0]))
	onHosts := "/etc/kubernetes/pki"
	p.write("upload.yaml", fmt.Sprintf(kubeadmConfig, ip, port, version, onHosts, p.etcd[0]))
	p.kubeadm("init", "phase", "certs", "all", "--config", p.path("init.yaml"))
	for _, conf := range []string{"admin", "super-admin", "controller-manager"} {
		p.kubeadm("init", "phase", "kubeconfig", conf,
			"--config", p.path("init.yaml"), "--kubeconfig-dir", p.path("conf"))
	}
	p.start("etcd", "etcd", "--data-dir", p.path("etcd"),
		"--listen-client-urls", p.etcd[0], "--advertise-client-urls", p.etcd[0],
		"--listen-peer-urls", p.etcd[1], "--initial-advertise-peer-urls", p.etcd[1],
		"--initial-cluster", "default="+p.etcd[1], "--unsafe-no-fsync")
	if p.admin, err = clientcmd.BuildConfigFromFlags("", p.path("conf/super-admin.conf")); err != nil {
		t.Fatal(err)
	}
	if p.http, err = rest.HTTPClientFor(p.admin); err != nil {
		t.Fatal(err)
	}
	p.StartAPI()
	p.kubeadm("init", "phase", "upload-config", "all",
		"--config", p.path("upload.yaml"), "--kubeconfig", p.path("conf/super-admin.conf"))
	p.kubeadm("init", "phase", "bootstrap-token", "--skip-token-print",
		"--config", p.path("upload.yaml"), "--kubeconfig", p.path("conf/super-admin.conf"))
	conf := p.path("conf/controller-manager.conf")
	p.start("controller-manager", filepath.Join(bin, "kube-controller-manager"),
		"--kubeconfig", conf, "--authentication-kubeconfig", conf, "--authorization-kubeconfig", conf,
		"--client-ca-file", p.path("pki/ca.crt"), "--cluster-signing-cert-file", p.path("pki/ca.crt"),
		"--cluster-signing-key-file", p.path("pki/ca.key"), "--root-ca-file", p.path("pki/ca.crt"),
		"--service-account-private-key-file", p.path("pki/sa.key"), "--use-service-account-credentials=true",
		"--leader-elect=false", "--secure-port=0",
		"--controllers=bootstrap-signer-controller,token-cleaner-controller,"+
			"certificatesigningrequest-signing-controller,certificatesigningrequest-approving-controller,"+
			"node-lifecycle-controller,serviceaccount-controller,root-ca-certificate-publisher-controller,"+
			"clusterrole-aggregation-controller,disruption-controller")
	return p
}

// StartAPI starts the API server, and blocks until it is ready.
func (p *Plane) StartAPI() {
	p.t.Helper()
	host, port, _ := net.SplitHostPort(p.addr)
	pki := func(name string) string { return p.path(filepath.Join("pki", name)) }
	p.api = p.start("apiserver", filepath.Join(p.bin, "kube-apiserver"), "--etcd-servers="+p.etcd[0],
		"--advertise-address="+host, "--bind-address="+host, "--secure-port="+port,
		"--client-ca-file="+pki("ca.crt"),
		"--tls-cert-file="+pki("apiserver.crt"), "--tls-private-key-file="+pki("apiserver.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+pki("sa.pub"), "--service-account-signing-key-file="+pki("sa.key"),
		"--service-cluster-ip-range=10.201.0.0/16", "--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction", "--enable-bootstrap-token-auth=true", "--allow-privileged=true")
	p.Until("the API server is ready", func() error {
		_, err := p.Do(http.MethodGet, "/readyz", "", nil)
		return err
	})
}

// UploadCerts makes kubeadm upload the certificates that control planes share, encrypted
// with a key of 32 bytes in hex, for two hours. It also grants the rights of the group in a
// new control plane's admin.conf, as kubeadm init does once.
func (p *Plane) UploadCerts(key string) {
	p.t.Helper()
	conf, err := os.ReadFile(p.path("init.yaml"))
	if err != nil {
		p.t.Fatal(err)
	}
	// kubeadm accepts no flag together with a file.
	text := strings.Replace(string(conf), "kind: InitConfiguration\n",
		"kind: InitConfiguration\ncertificateKey: "+key+"\n", 1)
	p.write("certs.yaml", text)
	p.kubeadm("init", "phase", "upload-certs", "--upload-certs", "--skip-certificate-key-print",
		"--config", p.path("certs.yaml"), "--kubeconfig", p.path("conf/super-admin.conf"))
	const group = "kubeadm:cluster-admins"
	p.Must(http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "", map[string]any{
		"metadata": map[string]any{"name": group},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}},
	}, nil)
}

// KillAPI kills the API server, as the death of its machine would.
func (p *Plane) KillAPI() {
	p.t.Helper()
	if err := p.api.Kill(); err != nil {
		p.t.Fatal(err)
	}
}

// Do makes a request to the API as an administrator; in is sent as JSON.
func (p *Plane) Do(method, path, contentType string, in any) ([]byte, error) {
	return ask(p.t.Context(), p.http, "https://"+p.addr+path, method, contentType, "", in)
}

// As makes a request to the API with a bearer token.
func (p *Plane) As(bearer, method, path string, in any) ([]byte, error) {
	anonymous, err := rest.HTTPClientFor(rest.AnonymousClientConfig(p.admin))
	if err != nil {
		return nil, err
	}
	return ask(p.t.Context(), anonymous, "https://"+p.addr+path, method, "", bearer, in)
}

// Must is like Do but fails the test on an error; into receives the response unless it is
// nil.
func (p *Plane) Must(method, path, contentType string, in, into any) {
	p.t.Helper()
	b, err := p.Do(method, path, contentType, in)
	if err == nil && into != nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func ask(ctx context.Context, c *http.Client, url, method, contentType, bearer string, in any) ([]byte, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if contentType == "" {
		contentType = "application/json"
	}
	r.Header.Set("Content-Type", contentType)
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	res, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %d %s", method, url, res.StatusCode, b)
	}
	return b, err
}

// Until blocks until cond returns nil.
func (p *Plane) Until(what string, cond func() error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	for {
		err := cond()
		if err == nil {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			p.t.Fatalf("wait until %s: %v; logs are in %s", what, err, p.dir)
		}
	}
}

func (p *Plane) start(name, program string, args ...string) *proc.Process {
	p.t.Helper()
	s, err := p.starter.Start(p.path(name+".log"), program, args...)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p *Plane) kubeadm(args ...string) {
	p.t.Helper()
	if output, err := exec.CommandContext(p.t.Context(), filepath.Join(p.bin, "kubeadm"),
		args...).CombinedOutput(); err != nil {
		p.t.Fatalf("kubeadm %v: %v: %s", args, err, output)
	}
}

func (p *Plane) path(name string) string { return filepath.Join(p.dir, name) }

func (p *Plane) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(p.path(name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// ownAddress returns a non-loopback address of this machine: kubeadm accepts no other.
func ownAddress() (string, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String(), nil
		}
	}
	return "", errors.New("this machine has only loopback IPv4 addresses")
}
