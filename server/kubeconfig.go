package server

import (
	"sigs.k8s.io/yaml"

	"github.com/holdfast-metal/holdfast/fsm"
)

// kubeconfigFile is what is looked at of a kubeconfig (k8s.io/client-go/tools/clientcmd/api/v1).
// The provider that uses it checks it again, whole.
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

// checkKubeconfig refuses what a peer could not use, or would have to read files or run programs
// for.
func checkKubeconfig(text string) []fsm.FieldViolation {
	bad := func(description string) []fsm.FieldViolation {
		return []fsm.FieldViolation{{Field: "values[kubeconfig]", Description: description}}
	}
	var k kubeconfigFile
	if yaml.Unmarshal([]byte(text), &k) != nil || len(k.Clusters) == 0 || len(k.Users) == 0 || k.CurrentContext == "" { // whose words may quote what is in it
		return bad("is no kubeconfig with a current-context, a cluster and a user: want YAML as kubectl config view --raw --flatten --minify prints it")
	}
	for _, c := range k.Clusters {
		switch {
		case c.Cluster.CAFile != "":
			return bad("names the file of a CA: put what is in it into it, with kubectl config view --raw --flatten --minify")
		case c.Cluster.CA == "" || c.Cluster.Insecure:
			return bad("has a cluster without certificate-authority-data: nobody could tell the real one from another")
		}
	}
	for _, u := range k.Users {
		switch {
		case u.User.Exec != nil || u.User.Provider != nil:
			return bad("has a user who logs in by a program (exec or auth-provider): peers run none, give it a client certificate or a token")
		case u.User.CertFile != "" || u.User.KeyFile != "" || u.User.TokenFile != "":
			return bad("names files of a user: put what is in them into it, with kubectl config view --raw --flatten --minify")
		}
	}
	return nil
}
