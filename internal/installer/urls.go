package installer

import (
	"net/url"
	"slices"
	"strings"
)

// urls returns the URLs of the image: the ordered one, the same path on the other peers if
// it is one of theirs, and all peers by its checksum. Peers that answered last come first.
func (w *work) urls() []string {
	im, servers := w.order.Image, w.Client.Servers()
	var all []string
	add := func(u string) {
		if !slices.Contains(all, u) {
			all = append(all, u)
		}
	}
	u, err := url.Parse(im.URL)
	ours := err == nil && (u.Host == "" ||
		slices.ContainsFunc(servers, func(s string) bool { return strings.HasPrefix(im.URL, s+"/") }))
	if !ours {
		add(im.URL)
	}
	for _, s := range servers {
		if ours {
			base, _ := url.Parse(s)
			base.Path, base.RawPath, base.RawQuery = u.Path, u.RawPath, u.RawQuery
			add(base.String())
		}
	}
	for _, s := range servers {
		add(s + "/images/sha256/" + im.SHA256)
	}
	return all
}
