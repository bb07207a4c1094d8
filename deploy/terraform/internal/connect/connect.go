// Package connect derives the connection to a cluster from the settings of the provider, the
// environment and the context file of the command line, in the order of the command line.
//
// It must not connect: the client does so with its first call.
package connect

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/profile"
)

const defaultAddr = "127.0.0.1:" + client.DefaultPort

// Settings are the settings of the provider. Empty ones are not set.
type Settings struct {
	Context          string
	Peers            []string
	Token, TokenFile string
	CA, Cert, Key    string // files, PEM
}

// Config returns the configuration of a client. Settings take precedence over the environment, and
// the environment over the context. Peers without a context are used without the current context,
// because its token belongs to its own cluster. If the settings name a context, the environment
// only locates the context file.
func (s Settings) Config(getenv func(string) string) (client.Config, error) {
	env := getenv
	if s.Context != "" {
		env = func(string) string { return "" }
	}
	peers := s.Peers
	if len(peers) == 0 {
		peers = strings.FieldsFunc(env("HOLDFAST_ADDR"), func(r rune) bool { return r == ',' || r == ' ' })
	}
	c, err := stored(cmp.Or(s.Context, env("HOLDFAST_CONTEXT")), len(peers) == 0, getenv)
	if err != nil {
		return client.Config{}, err
	}
	if len(peers) > 0 {
		c.Addrs = peers
	}
	if len(c.Addrs) == 0 {
		c.Addrs = []string{defaultAddr}
	}
	token, err := s.token()
	if err != nil {
		return client.Config{}, err
	}
	c.Token = cmp.Or(token, env("HOLDFAST_TOKEN"), c.Token)
	c.CA = cmp.Or(s.CA, env("HOLDFAST_CA"), c.CA)
	c.Cert = cmp.Or(s.Cert, env("HOLDFAST_CERT"), c.Cert)
	c.Key = cmp.Or(s.Key, env("HOLDFAST_KEY"), c.Key)
	t, err := loadTLS(c)
	return client.Config{Addrs: c.Addrs, Token: c.Token, TLS: t}, err
}

// stored returns a context of the context file. An empty name is the current context, which is used
// only if current is set.
func stored(name string, current bool, getenv func(string) string) (profile.Context, error) {
	if name == "" && !current {
		return profile.Context{}, nil
	}
	path, err := profile.Path(getenv)
	if err != nil {
		if name == "" {
			return profile.Context{}, nil // no home directory, and none is needed
		}
		return profile.Context{}, err
	}
	file, err := profile.Load(path)
	if err != nil {
		return profile.Context{}, err
	}
	return file.Context(name)
}

// token returns the token of the settings, or "".
func (s Settings) token() (string, error) {
	if s.TokenFile == "" {
		return s.Token, nil
	}
	if s.Token != "" {
		return "", errors.New("token and token_file are both set: only one of them is allowed")
	}
	text, err := os.ReadFile(s.TokenFile)
	if err != nil {
		return "", fmt.Errorf("read token_file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("read token_file: %s is empty", s.TokenFile)
	}
	return token, nil
}

// loadTLS returns nil if neither a CA nor a certificate is set.
func loadTLS(c profile.Context) (*tls.Config, error) {
	switch {
	case c.CA == "" && c.Cert == "" && c.Key == "":
		return nil, nil
	case (c.Cert == "") != (c.Key == ""):
		return nil, errors.New("cert_file (HOLDFAST_CERT) and key_file (HOLDFAST_KEY) go together: only one of them is set")
	}
	return client.LoadTLS(c.CA, c.Cert, c.Key)
}
