package access

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// maxSecretBytes is the maximum size of the values of a secret together. Certificates and
// kubeconfigs fit, images do not.
const maxSecretBytes = 64 << 10

// secretShape describes the values of a type of secret.
type secretShape struct {
	needs []string // all of them are required
	one   []string // one of them is required
	may   []string // optional
	open  bool     // any other value is allowed
}

// shapes returns the types of secrets (proto/holdfast/v1/secret.proto).
func shapes() map[string]secretShape {
	return map[string]secretShape{
		"bmc": {needs: []string{"username", "password"}},
		// Without a username it is that of root.
		"ssh":    {one: []string{"private_key", "password"}, may: []string{"username", "certificate"}},
		"join":   {one: []string{"token", "kubeconfig"}, may: []string{"ca_hash", "endpoint", "certificate_key"}},
		"token":  {needs: []string{"token"}},
		"opaque": {open: true},
	}
}

// checkSecret returns the violations of a secret. They contain no value of the secret.
func checkSecret(r *holdfastv1.PutSecretRequest) []fsm.FieldViolation {
	keys := make([]string, 0, len(r.GetValues()))
	size := 0
	for k, v := range r.GetValues() {
		keys = append(keys, k)
		size += len(k) + len(v)
	}
	slices.Sort(keys)
	bad := fsm.ValidateSecret(&holdfastv1.Secret{Name: r.GetName(), Type: r.GetType(), Keys: keys, Pools: r.GetPools()})
	if len(bad) > 0 {
		return bad // do not quote the keys: they may be values in the wrong place
	}
	add := func(key, format string, args ...any) {
		field := "values"
		if key != "" {
			field += "[" + key + "]"
		}
		bad = append(bad, fsm.FieldViolation{Field: field, Description: fmt.Sprintf(format, args...)})
	}
	if size > maxSecretBytes {
		add("", "have %d bytes together: at most %d are allowed", size, maxSecretBytes)
	}
	shape := shapes()[r.GetType()]
	for _, k := range shape.needs {
		if r.GetValues()[k] == "" {
			add(k, "is required in a secret of type %s", r.GetType())
		}
	}
	if len(shape.one) > 0 && !slices.ContainsFunc(shape.one, func(k string) bool { return r.GetValues()[k] != "" }) {
		add("", "need one of %s in a secret of type %s", strings.Join(shape.one, ", "), r.GetType())
	}
	for _, k := range keys {
		if known := slices.Concat(shape.needs, shape.one, shape.may); !shape.open && !slices.Contains(known, k) {
			add(k, "is unknown in a secret of type %s: want %s (type opaque allows anything)",
				r.GetType(), strings.Join(known, ", "))
		}
		if !utf8.ValidString(r.GetValues()[k]) {
			add(k, "is not text: encode it, for example as base64")
		}
	}
	if r.GetType() == "ssh" && len(bad) == 0 {
		bad = checkSSH(r.GetValues())
	}
	if text := r.GetValues()["kubeconfig"]; r.GetType() == "join" && text != "" && len(bad) == 0 {
		bad = checkKubeconfig(text)
	}
	return bad
}

// checkSSH returns violations for credentials that no SSH client can use.
func checkSSH(values map[string]string) []fsm.FieldViolation {
	var bad []fsm.FieldViolation
	add := func(key, description string) {
		bad = append(bad, fsm.FieldViolation{Field: "values[" + key + "]", Description: description})
	}
	key := values["private_key"]
	var signer ssh.Signer
	if key != "" {
		var err error
		protected := new(ssh.PassphraseMissingError)
		switch signer, err = ssh.ParsePrivateKey([]byte(key)); {
		case errors.As(err, &protected):
			add("private_key", "has a passphrase: remove it (ssh-keygen -p), the secret is stored encrypted")
		case err != nil: // the error may quote the key
			add("private_key", "is not a private key: want PEM, as ssh-keygen writes it")
		}
	}
	if text := values["certificate"]; text != "" {
		pub, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
		cert, ok := pub.(*ssh.Certificate)
		switch {
		case err != nil || !ok:
			add("certificate", "is not an SSH certificate: want the line of a file like id_ed25519-cert.pub")
		case key == "":
			add("certificate", "needs the private_key that it was made for")
		case signer != nil && string(cert.Key.Marshal()) != string(signer.PublicKey().Marshal()):
			add("certificate", "is of another key than private_key")
		}
	}
	return bad
}
