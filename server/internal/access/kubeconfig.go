package access

import (
	"sigs.k8s.io/yaml"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// kubeconfigFile is the part of a kubeconfig that is checked
// (k8s.io/client-go/tools/clientcmd/api/v1). The provider that uses the file checks all
// of it.
type kubeconfigFile struct {
	CurrentContext string `json:"current-context"`
	Clusters       []struct {
		Cluster struct {
			Server   string `json:"server"`
			CAFile   string `json:"certificate-authority"`
			CA       string `json:"certificate-authority-data"`
			Insecure bool   `json:"insecure-skip-tls-verify"`
		} `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		User struct {
			CertFile  string `json:"client-certificate"`
			KeyFile   string `json:"client-key"`
			TokenFile string `json:"tokenFile"`
			Exec      any    `json:"exec"`
			Provider  any    `json:"auth-provider"`
		} `json:"user"`
	} `json:"users"`
}

// deniedServer returns violations for the API servers of a kubeconfig that no peer may connect to.
func (s *Secrets) deniedServer(r *holdfastv1.PutSecretRequest) (bad []fsm.FieldViolation) {
	var k kubeconfigFile
	if r.GetType() != "join" || yaml.Unmarshal([]byte(r.GetValues()["kubeconfig"]), &k) != nil {
		return nil // checkKubeconfig reports it
	}
	for _, c := range k.Clusters {
		bad = append(bad, s.DeniedURL("values[kubeconfig]", c.Cluster.Server)...)
	}
	return bad
}

// checkKubeconfig returns violations if a peer cannot use a kubeconfig, or if it refers to
// files or programs.
func checkKubeconfig(text string) []fsm.FieldViolation {
	bad := func(description string) []fsm.FieldViolation {
		return []fsm.FieldViolation{{Field: "values[kubeconfig]", Description: description}}
	}
	var k kubeconfigFile
	// The error of Unmarshal is not returned, because it may quote a secret.
	if yaml.Unmarshal([]byte(text), &k) != nil || len(k.Clusters) == 0 || len(k.Users) == 0 || k.CurrentContext == "" {
		return bad("is not a kubeconfig with a current-context, a cluster and a user: " +
			"want the YAML that kubectl config view --raw --flatten --minify prints")
	}
	for _, c := range k.Clusters {
		switch {
		case c.Cluster.CAFile != "":
			return bad("refers to the file of a CA: embed it with kubectl config view --raw --flatten --minify")
		case c.Cluster.CA == "" || c.Cluster.Insecure:
			return bad("has a cluster without certificate-authority-data: the cluster could not be authenticated")
		}
	}
	for _, u := range k.Users {
		switch {
		case u.User.Exec != nil || u.User.Provider != nil:
			return bad("has a user that logs in with a program (exec or auth-provider): " +
				"use a client certificate or a token")
		case u.User.CertFile != "" || u.User.KeyFile != "" || u.User.TokenFile != "":
			return bad("refers to files of a user: embed them with kubectl config view --raw --flatten --minify")
		}
	}
	return nil
}
