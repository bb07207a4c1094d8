//go:build linux

package kubelab

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"
)

// Account returns a kubeconfig of the account in deploy/kubernetes, which has only the
// required permissions.
func Account(t testing.TB, plane *Plane) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root(), "deploy", "kubernetes", "holdfast.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for doc := range strings.SplitSeq(string(b), "\n---\n") {
		var o struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Metadata   struct {
				Namespace string `json:"namespace"`
			} `json:"metadata"`
		}
		var all map[string]any
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(doc), &all); err != nil {
			t.Fatal(err)
		}
		path := "/apis/" + o.APIVersion
		if o.APIVersion == "v1" {
			path = "/api/v1"
		}
		if o.Metadata.Namespace != "" {
			path += "/namespaces/" + o.Metadata.Namespace
		}
		plane.Must(http.MethodPost, path+"/"+strings.ToLower(o.Kind)+"s", "", all, nil)
	}
	var token authv1.TokenRequest
	plane.Must(http.MethodPost, "/api/v1/namespaces/kube-system/serviceaccounts/holdfast/token", "",
		authv1.TokenRequest{}, &token)
	conf := clientcmdapi.NewConfig()
	conf.Clusters["it"] = &clientcmdapi.Cluster{Server: plane.admin.Host, CertificateAuthorityData: plane.admin.CAData}
	conf.AuthInfos["it"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	conf.Contexts["it"] = &clientcmdapi.Context{Cluster: "it", AuthInfo: "it"}
	conf.CurrentContext = "it"
	file := plane.path("holdfast.conf")
	if err := clientcmd.WriteToFile(*conf, file); err != nil {
		t.Fatal(err)
	}
	return file
}
