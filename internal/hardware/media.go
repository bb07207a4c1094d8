package hardware

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/netboot"
)

// media configures installs of a cloudbmc by virtual media.
type media struct {
	Servers    []string `json:"servers"`    // base URLs of peers, as BMCs reach them
	Installers []string `json:"installers"` // the same peers, as machines reach them; default servers
	stages
}

// takeMedia splits the configuration of a cloudbmc into that of its media, or nil, and that of its
// BMCs.
func takeMedia(raw json.RawMessage) (ofBMC, media json.RawMessage, err error) {
	if len(raw) == 0 {
		return raw, nil, nil
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil {
		return raw, nil, nil //nolint:nilerr // ParseConfig returns a better error
	}
	for _, half := range []string{"bmc", "ssh"} {
		if _, is := keys[half]; is {
			return nil, nil, fmt.Errorf("unknown key %q: it is one of a datacenter; a cloudbmc has the keys of bmc itself, "+
				"such as protocol, without a level above them", half)
		}
	}
	media, ok := keys["media"]
	if !ok {
		return raw, nil, nil
	}
	delete(keys, "media")
	ofBMC, err = json.Marshal(keys)
	return ofBMC, media, err
}

func (h *Hardware) newMediumImager(raw json.RawMessage, b *bmc.Provider) (*netboot.MediumImager, error) {
	var m media
	if err := strict(raw, &m); err != nil {
		return nil, err
	}
	for _, s := range slices.Concat(m.Servers, m.Installers) {
		if err := checkBaseURL(s); err != nil {
			return nil, fmt.Errorf("server %q: %w", s, err)
		}
	}
	return netboot.NewMedium(netboot.MediumConfig{Config: m.config(), Servers: m.Servers, Installers: m.Installers},
		sessions{h}, b, nil)
}

// checkBaseURL returns an error unless a text is the base URL of a peer. It becomes a word of a
// kernel's command line, so it must not contain spaces or quotes.
func checkBaseURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.ContainsAny(s, " \t\n\"'"):
		return errors.New("want a URL like http://10.0.0.1:7404")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		return errors.New("want a scheme, a host and a port, and nothing else")
	}
	return nil
}
